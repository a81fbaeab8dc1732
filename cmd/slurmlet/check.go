package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/kit/releases"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/check"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
	"github.com/slurmlet/slurmlet/slurmconf/report"
)

// checkFiles judges configurations of Slurm. The exit status is agent.ExitFailure
// when there is an error among the findings.
func checkFiles(args []string) int {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	format := flags.String("o", "text", "output `format`: "+strings.Join(slices.Sorted(maps.Keys(report.Formats)), ", "))
	version := flags.String("slurm-version", "",
		"Slurm's `version`: "+strings.Join(keys.Versions, ", ")+
			", or a whole one such as 26.05.5-1 (default: that of scontrol, else the newest)")
	here := flags.Bool("here", false, "look for the programs, plugins and keys that slurmctld needs, on this machine")
	completed := flags.Bool("agent", false, "judge slurm.conf with what slurmctld's agent adds to it; a manifest is judged so at any rate")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return agent.ExitOK
		}
		return agent.ExitUsage
	}
	write, known := report.Formats[*format]
	asked, err := releases.Parse(cmp.Or(*version, keys.Versions[0]))
	if flags.NArg() == 0 || !known || err != nil || !slices.Contains(keys.Versions, asked.Line) {
		return misused(fmt.Errorf("check: want files, directories or - (standard input), and a known format and version, not %q", args))
	}
	if *version == "" {
		asked = releases.Version{}
	}
	j := newJudge(asked, *here)
	j.completed = *completed
	findings := j.aboutSlurm(flags.Arg(0))
	for _, name := range flags.Args() {
		findings = append(findings, j.read(name)...)
	}
	if err := write(os.Stdout, findings); err != nil {
		fmt.Fprintln(os.Stderr, "slurmlet: cannot write the findings:", err)
		return agent.ExitFailure
	}
	if findings.Err() != nil {
		return agent.ExitFailure
	}
	return agent.ExitOK
}

// judge is what configurations are judged with.
type judge struct {
	options  check.Options
	scontrol string // its path, empty if it is not there or of another version
	// version is the whole one where it is known, and a line or nothing elsewhere.
	version releases.Version
	// completed: slurm.conf is judged with what slurmctld's agent adds to it.
	completed bool
}

func newJudge(asked releases.Version, here bool) judge {
	j := judge{options: check.Options{Version: asked.Line}, version: asked}
	if here {
		j.options.SlurmctldRoot = os.DirFS("/")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	path, program, release, err := slurm.Find(ctx)
	if err != nil {
		return j
	}
	found := releases.Find(os.DirFS("/"), program, release)
	if !slices.Contains(keys.Versions, found.Line) || asked.Line != "" && asked.Line != found.Line {
		return j
	}
	j.scontrol, j.options.Version = path, found.Line
	if asked.Line == "" {
		j.version = found
	}
	return j
}

// read reads a directory, or a file with what it includes. slurm.conf is judged
// with the files beside it.
func (j judge) read(name string) slurmconf.Findings {
	if name == "-" {
		return j.input()
	}
	info, err := os.Stat(name)
	if err != nil {
		return unreadable(name, err)
	}
	if info.Mode().IsRegular() && info.Size() <= maxInput &&
		slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) && kindOf(name) == slurmconf.SlurmConf {
		content, err := os.ReadFile(name)
		if err != nil {
			return unreadable(name, err)
		}
		if isManifest(content) {
			return j.manifest(name, content)
		}
	}
	dir, conf := name, filepath.Join(name, string(slurmconf.SlurmConf))
	// Where the files will be, absolute Includes are beside them.
	kind, kinds := slurmconf.SlurmConf, slurmconf.Kinds
	if !info.IsDir() {
		dir, conf = filepath.Dir(name), name
		if kind = kindOf(name); kind != slurmconf.SlurmConf {
			kinds = []slurmconf.Kind{kind}
		}
	}
	src := slurmconf.Dir(dir).As("/etc/slurm")
	if j.completed {
		src = withAgent(dir, filepath.Base(conf))
	}
	if !info.IsDir() {
		src = src.Named(kind, filepath.Base(name))
	}
	findings := j.set(src, kinds)
	if j.scontrol != "" && findings.Err() == nil && !j.completed && slices.Contains(kinds, slurmconf.SlurmConf) {
		findings = append(findings, j.secondOpinion(conf)...)
	}
	findings.Sort()
	return below(dir, findings)
}

// input judges standard input: a manifest, or a slurm.conf.
func (j judge) input() slurmconf.Findings {
	const name = "stdin"
	content, err := io.ReadAll(io.LimitReader(os.Stdin, maxInput+1))
	switch {
	case err != nil:
		return unreadable(name, err)
	case len(content) > maxInput:
		return unreadable(name, fmt.Errorf("more than %d bytes", maxInput))
	case isManifest(content):
		return j.manifest(name, content)
	}
	o := overlay{texts: map[string]string{"etc/slurm/" + name: string(content)}}
	if j.completed {
		complete(o, "etc/slurm", name, nil)
	}
	return j.set(slurmconf.In(o, "/etc/slurm").Named(slurmconf.SlurmConf, name),
		[]slurmconf.Kind{slurmconf.SlurmConf, slurmconf.CgroupConf})
}

// maxInput is more than all objects of a chart.
const maxInput = 8 * slurmconf.MaxFileSize

func unreadable(name string, err error) slurmconf.Findings {
	return slurmconf.Findings{{
		Position: slurmconf.Position{File: name}, Severity: slurmconf.Error, Rule: "read",
		What: "cannot read: " + reason(err),
	}}
}

// withAgent is a directory with what slurmctld's agent adds to it, where slurm.conf has this name.
func withAgent(dir, conf string) slurmconf.Source {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return slurmconf.Dir(dir)
	}
	o := overlay{FS: os.DirFS("/"), texts: map[string]string{}}
	complete(o, strings.TrimPrefix(absolute, "/"), conf, nil)
	return slurmconf.In(o, absolute).As("/etc/slurm")
}

// set reads and judges the files of a source.
func (j judge) set(src slurmconf.Source, kinds []slurmconf.Kind) slurmconf.Findings {
	set, findings := slurmconf.Read(src, kinds...)
	more, err := check.Set(set, j.options)
	if err != nil {
		panic(err) // The version has been checked.
	}
	findings = append(findings, more...)
	findings.Sort()
	return findings
}

// secondOpinion asks Slurm's own parser where nothing else has found a fault.
func (j judge) secondOpinion(conf string) slurmconf.Findings {
	absolute, err := filepath.Abs(conf)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = slurm.Scontrol{Path: j.scontrol}.Parse(ctx, absolute)
	}
	if err == nil {
		return nil
	}
	at := slurmconf.Position{File: filepath.Base(conf)}
	return slurmconf.Findings{{
		Position: at, Severity: slurmconf.Error, Rule: "scontrol",
		What: "Slurm's own parser cannot read it: " + slurmconf.Hide(err.Error()),
	}}
}

// below makes the names of files those that the user can open.
func below(dir string, findings slurmconf.Findings) slurmconf.Findings {
	for i, f := range findings {
		if !filepath.IsAbs(f.File) {
			findings[i].File = filepath.Join(dir, f.File)
		}
	}
	return findings
}

// reason is the error without the file's name.
func reason(err error) string {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err.Error()
	}
	return err.Error()
}

// kindOf takes cgroup.conf.example and gres.conf.new for what they are meant to be.
func kindOf(name string) slurmconf.Kind {
	for _, kind := range slurmconf.Kinds {
		if strings.HasPrefix(filepath.Base(name)+".", string(kind)+".") {
			return kind
		}
	}
	return slurmconf.SlurmConf
}
