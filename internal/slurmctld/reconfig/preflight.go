package reconfig

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
	confcheck "github.com/slurmlet/slurmlet/slurmconf/check"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

// checkSet stages a set and checks it. The refusal names the files of the sources, where
// people edit.
func (r *Reloader) checkSet(ctx context.Context, set *confset.Set, running bool) (inspection, error) {
	staged, err := r.stage(set)
	if err != nil {
		return inspection{}, err
	}
	i, c := inspection{staged: staged}, candidate{Set: set, dir: staged}
	c.conf, c.findings = slurmconf.Read(slurmconf.Dir(staged), ofSlurmctld...)
	if running {
		c.before, _ = slurmconf.Read(slurmconf.Dir(r.liveSet.Current()), ofSlurmctld...)
		i.changes = c.changesFrom(r.liveSet.Current())
	}
	if running && r.Preflight != PreflightOff {
		i.gone, i.nodeChange, i.enforces = gone(c.before, c.conf), changeOfNodes(c.before, c.conf), beginsToEnforce(c.before, c.conf)
	}
	if err := r.runPreflight(ctx, c); err != nil {
		return r.orDrop(i, err)
	}
	if running && r.Preflight != PreflightOff {
		r.logRestarts(c)
	}
	return i, nil
}

// orDrop leaves nothing of a set that is refused.
func (r *Reloader) orDrop(i inspection, err error) (inspection, error) {
	if err == nil {
		return i, nil
	}
	r.liveSet.Drop(i.staged)
	return inspection{}, err
}

func (r *Reloader) runPreflight(ctx context.Context, c candidate) error {
	if r.Preflight == PreflightOff {
		return nil
	}
	parsed := r.parsing(ctx, c)
	findings := r.findings(ctx, c.conf, c.dir, c.before != nil)
	said, refusal := parsed()
	if said && refusal == nil {
		findings = taken(c.conf, findings)
	}
	findings = append(findings, c.findings...)
	if c.before != nil && c.findings.Err() == nil { // else the defaults are not in it
		findings = append(findings, restarts(c.before, c.conf)...)
	}
	if findings.Err() != nil {
		findings.Sort()
		return errors.New(strings.Join(lines(c.Set, c.dir, findings, slurmconf.Error), "\n"))
	}
	return refusal
}

// logRestarts says what slurmd takes as it starts only.
func (r *Reloader) logRestarts(c candidate) {
	for _, restart := range confcheck.Restarts(c.before, c.conf) {
		if f := restart.Finding(); restart.Waits {
			f.File = source(c.Set, f.File)
			r.Log(slog.LevelWarn, "slurmd that does not take the edit is restarted into it; its jobs run on",
				slog.String("warning", c.Named(c.dir, f.Error())))
		}
	}
}

// parsing has Slurm's own parser read what can be read, while slurmctld is asked for its
// version: at a start, slurmctld waits for both.
func (r *Reloader) parsing(ctx context.Context, c candidate) (wait func() (said bool, refusal error)) {
	if c.findings.Err() != nil {
		return func() (bool, error) { return false, nil }
	}
	type answer struct {
		said    bool
		refusal error
	}
	answers := make(chan answer, 1)
	go func() {
		said, refusal := r.parsed(ctx, c)
		answers <- answer{said, refusal}
	}()
	return func() (bool, error) {
		got := <-answers
		return got.said, got.refusal
	}
}

// parsed is what Slurm's own parser says. Where it says nothing in time, slurmctld
// will: a container that is short of CPU is no fault of its configuration.
func (r *Reloader) parsed(ctx context.Context, c candidate) (said bool, refusal error) {
	limited, cancel := context.WithTimeout(ctx, parserLimit)
	defer cancel()
	err := r.Client.Parse(limited, filepath.Join(c.dir, confset.Main))
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case limited.Err() != nil:
		r.Log(slog.LevelWarn, "the check goes on without Slurm's parser", slog.Any("error", err))
		return false, nil
	}
	_, words, _ := strings.Cut(slurmconf.Hide(err.Error()), ": ")
	return true, errors.New(probableLine(c.conf, c.Set, words) + "Slurm's parser: " + c.Named(c.dir, words))
}

// findings are those of package check. It finds nothing for a Slurm that it does not know:
// a newer one may take what those before it did not.
func (r *Reloader) findings(ctx context.Context, conf *slurmconf.Set, dir string, running bool) slurmconf.Findings {
	build := r.slurmBuild(ctx, running)
	if !slices.Contains(keys.Versions, build.version) {
		return nil
	}
	findings, _ := confcheck.Set(conf,
		confcheck.Options{Version: build.version, SlurmctldRoot: r.machineWith(dir), PluginDir: build.plugins, ConfDir: dir})
	return findings
}

// machineWith is the machine as slurmctld sees it once the set in dir is live: its
// scripts are where the configuration names them.
func (r *Reloader) machineWith(dir string) fs.FS {
	return withLive{os.DirFS("/"), strings.TrimPrefix(r.liveSet.Current(), "/"), strings.TrimPrefix(dir, "/")}
}

// withLive is a file system with the directory staged in the place of live.
type withLive struct {
	fs.FS
	live, staged string
}

func (w withLive) place(name string) string {
	if inside, found := strings.CutPrefix(name+"/", w.live+"/"); found {
		return path.Join(w.staged, inside)
	}
	return name
}

func (w withLive) Open(name string) (fs.File, error) { return w.FS.Open(w.place(name)) }

func (w withLive) Stat(name string) (fs.FileInfo, error) { return fs.Stat(w.FS, w.place(name)) }

// restarts are the changes that a reconfigure does not make. Some cannot wait for a restart
// and are refused as long as slurmctld runs: those that lose jobs, and another port, under
// which neither scontrol nor the nodes would find it.
func restarts(from, to *slurmconf.Set) slurmconf.Findings {
	var all slurmconf.Findings
	for _, r := range confcheck.Restarts(from, to) {
		f := r.Finding()
		if !r.Waits {
			f.Severity, f.Want = slurmconf.Error, "the old value until then"
		}
		all = append(all, f)
	}
	return all
}

// parserLimit bounds Slurm's parser, which needs hundredths of a second where the
// container has the CPU for it.
const parserLimit = 15 * time.Second
