package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf"
	confcheck "github.com/slurmlet/slurmlet/slurmconf/check"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

// Preflight says how a configuration is looked at before slurmctld gets it.
type Preflight string

// The kinds of preflight.
const (
	PreflightOff   Preflight = "off"   // the files must be there and be text
	PreflightParse Preflight = "parse" // checked by package slurmconf, and read by Slurm's own parser
	PreflightFull  Preflight = "full"  // and a throw-away slurmctld comes up with it
)

func parsePreflight(text string) (Preflight, error) {
	switch p := Preflight(text); p {
	case PreflightOff, PreflightParse, PreflightFull:
		return p, nil
	}
	return "", errors.New("want off, parse or full")
}

// parserLimit bounds Slurm's parser, which needs hundredths of a second where the
// container has the CPU for it.
const parserLimit = 15 * time.Second

// ofController are the files that slurmctld and its nodes read. slurmdbd.conf is
// for another daemon, whatever is wrong with it.
var ofController = slices.DeleteFunc(slices.Clone(slurmconf.Kinds), func(k slurmconf.Kind) bool { return k == slurmconf.SlurmdbdConf })

// stage writes a set beside the live one, with the agent's defaults in it.
func (a *Agent) stage(set *confset.Set) (string, error) {
	a.conf.staging.Lock()
	defer a.conf.staging.Unlock()
	return a.stageIn(a.conf.live, set)
}

func (a *Agent) stageIn(store confset.Store, set *confset.Set) (string, error) {
	dir, err := store.Stage(set)
	if err == nil && a.Config.ConfDefaults {
		if err = a.render(dir); err != nil {
			store.Drop(dir)
		}
	}
	return dir, err
}

// candidate is a set that lies ready at dir to be looked at.
type candidate struct {
	*confset.Set
	dir      string
	conf     *slurmconf.Set
	findings slurmconf.Findings
	// before is what slurmctld runs with, nil before its start.
	before *slurmconf.Set
}

// inspection is what came of a look at a set that can be used.
type inspection struct {
	// staged is where it lies ready, changes what it changes, gone the partitions that it takes away.
	staged  string
	changes []string
	gone    []slurmconf.Partition
}

// checkFirst is checkSet for a set that slurmctld is to be started with.
func (a *Agent) checkFirst(set, good *confset.Set) (inspection, error) {
	i, err := a.checkSet(context.Background(), set, false)
	if err != nil {
		return i, err
	}
	return a.orDrop(i, a.departsFirst(good, set, i.staged))
}

// checkEdition is checkSet for a set that is to be live next, with all that is ready for
// it. What slurmctld has jobs of is asked now, whenever the rest was looked at.
func (a *Agent) checkEdition(set *confset.Set) (inspection, error) {
	if err := a.departsAgain(set); err != nil {
		return inspection{}, err
	}
	before := a.foreseen()
	defer func() { a.conf.starts = before.starts() }()
	i, err := a.rehearsedOrChecked(set)
	if err != nil {
		return i, err
	}
	a.conf.departure = departure{set, a.livePlace(), i.gone}
	return a.orDrop(i, a.departs(a.conf.departure))
}

func (a *Agent) rehearsedOrChecked(set *confset.Set) (inspection, error) {
	if r := a.rehearsedSet(set); r != nil {
		return r.inspection, nil
	}
	return a.checkSet(context.Background(), set, true)
}

// orDrop leaves nothing of a set that is refused.
func (a *Agent) orDrop(i inspection, err error) (inspection, error) {
	if err == nil {
		return i, nil
	}
	a.conf.live.Drop(i.staged)
	return inspection{}, err
}

// checkSet stages a set and looks at it; what is wrong has the name of the
// source, where people edit.
func (a *Agent) checkSet(ctx context.Context, set *confset.Set, running bool) (inspection, error) {
	staged, err := a.stage(set)
	if err != nil {
		return inspection{}, err
	}
	i, c := inspection{staged: staged}, candidate{Set: set, dir: staged}
	c.conf, c.findings = slurmconf.Read(slurmconf.Dir(staged), ofController...)
	if running {
		c.before, _ = slurmconf.Read(slurmconf.Dir(a.conf.live.Current()), ofController...)
		i.changes = c.changes(a.conf.live.Current())
	}
	if running && a.Config.Preflight != PreflightOff {
		i.gone = gone(c.before, c.conf)
	}
	return a.orDrop(i, a.preflight(ctx, c))
}

func (a *Agent) preflight(ctx context.Context, c candidate) error {
	if a.Config.Preflight == PreflightOff {
		return nil
	}
	var refusal error
	findings := a.judged(ctx, c.conf, c.dir, c.before != nil)
	if c.findings.Err() == nil {
		var said bool
		if said, refusal = a.parsed(ctx, c); said && refusal == nil {
			findings = taken(c.conf, findings)
		}
	}
	findings = append(findings, c.findings...)
	if c.before != nil && c.findings.Err() == nil { // else the defaults are not in it
		findings = append(findings, restarts(c.before, c.conf)...)
	}
	if findings.Err() != nil {
		findings.Sort()
		return errors.New(strings.Join(lines(c.Set, c.dir, findings, slurmconf.Error), "\n"))
	}
	if refusal == nil && a.Config.Preflight == PreflightFull {
		refusal = a.tried(ctx, c)
	}
	return refusal
}

// parsed is what Slurm's own parser says. Where it says nothing in time, slurmctld
// will: a container that is short of CPU is no fault of its configuration.
func (a *Agent) parsed(ctx context.Context, c candidate) (said bool, refusal error) {
	limited, cancel := context.WithTimeout(ctx, parserLimit)
	defer cancel()
	err := a.client.Parse(limited, filepath.Join(c.dir, confset.Main))
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case limited.Err() != nil:
		a.tell(slog.LevelWarn, "going on without Slurm's parser", slog.Any("error", err))
		return false, nil
	}
	_, words, _ := strings.Cut(err.Error(), ": ")
	return true, errors.New(where(c.conf, c.Set, words) + "Slurm's parser: " + c.Named(c.dir, words))
}

// judged is what package check says. Of a Slurm that it does not know it says
// nothing: a newer one may take what those before it did not.
func (a *Agent) judged(ctx context.Context, conf *slurmconf.Set, dir string, running bool) slurmconf.Findings {
	build := a.slurmBuild(ctx, running)
	if !slices.Contains(keys.Versions, build.version) {
		return nil
	}
	findings, _ := confcheck.Set(conf, confcheck.Options{Version: build.version, Controller: os.DirFS("/"), PluginDir: build.plugins, ConfDir: dir})
	return findings
}

// build is what is known of this container's Slurm: its version ("26.05") and where
// its plugins are, empty until a slurmctld runs that can be asked.
type build struct{ version, plugins string }

func (a *Agent) slurmBuild(ctx context.Context, running bool) build {
	ctx, cancel := context.WithTimeout(ctx, questionLimit)
	defer cancel()
	var known build
	if b := a.conf.build.Load(); b != nil {
		known = *b
	}
	if known.version == "" {
		known.version, _ = slurm.Version(ctx, a.daemon.path) // asked again next time
	}
	if known.plugins == "" && running {
		cluster, _ := a.client.Config(ctx)
		known.plugins = cluster["PluginDir"]
	}
	a.conf.build.Store(&known)
	return known
}

// taken makes keys that the table does not have, and Slurm's own parser has just
// taken, Warnings: this Slurm was built with more of them.
func taken(conf *slurmconf.Set, findings slurmconf.Findings) slurmconf.Findings {
	for i, f := range findings {
		if f.Rule == "unknown-key" && conf.File(f.File).Kind == slurmconf.SlurmConf {
			findings[i].Severity = slurmconf.Warning
		}
	}
	return findings
}

// restarts are the changes that a reconfigure does not make. All of them are
// refused as long as slurmctld runs: those that lose jobs, and another port, under
// which neither scontrol nor the nodes would find it.
func restarts(from, to *slurmconf.Set) slurmconf.Findings {
	var all slurmconf.Findings
	for _, r := range confcheck.Restarts(from, to) {
		f := r.Finding()
		f.Severity, f.Want = slurmconf.Error, "the old value until then"
		all = append(all, f)
	}
	return all
}

// lines are the findings of a severity, one a line, under the names of the sources.
func lines(set *confset.Set, dir string, findings slurmconf.Findings, severity slurmconf.Severity) []string {
	var all []string
	for _, f := range findings {
		if f.Severity == severity {
			f.File = source(set, f.File)
			all = append(all, set.Named(dir, f.Error()))
		}
	}
	return all
}

func source(set *confset.Set, name string) string {
	if f, found := set.File(name); found {
		return f.Source
	}
	return name
}
