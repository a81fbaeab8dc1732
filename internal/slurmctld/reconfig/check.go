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
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf"
	confcheck "github.com/slurmlet/slurmlet/slurmconf/check"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

// Preflight says how a configuration is checked before slurmctld gets it.
type Preflight string

// The kinds of preflight.
const (
	PreflightOff   Preflight = "off"   // the files must be there and be text
	PreflightParse Preflight = "parse" // checked by package slurmconf, and read by Slurm's own parser
	PreflightFull  Preflight = "full"  // and a slurmctld comes up with it in a dry run
)

// ParsePreflight reads SLURMLET_PREFLIGHT.
func ParsePreflight(text string) (Preflight, error) {
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
func (r *Reloader) stage(set *confset.Set) (string, error) {
	return r.stageIn(&r.live, set)
}

func (r *Reloader) stageIn(store *confset.Store, set *confset.Set) (string, error) {
	return store.Stage(set, r.complete)
}

// candidate is a set that is staged in dir to be checked.
type candidate struct {
	*confset.Set
	dir      string
	conf     *slurmconf.Set
	findings slurmconf.Findings
	// before is what slurmctld runs with, nil before its start.
	before *slurmconf.Set
}

// inspection is the result of a check that refuses nothing.
type inspection struct {
	// staged is where the set lies, changes is what it changes, and gone are the partitions
	// that it takes away, nodes the nodes. anew: some of it counts for a slurmctld that starts only.
	staged  string
	changes []string
	gone    []slurmconf.Partition
	nodes   nodeChange
	// enforces is the cluster's name if associations become required.
	enforces string
	anew     bool
}

// checkFirst checks a set before slurmctld runs. It compares the set with the last good one
// as far as that is possible then: slurmctld may have jobs in its partitions, and nodes that
// run with it.
func (r *Reloader) checkFirst(ctx context.Context, set, good *confset.Set) (inspection, error) {
	i, err := r.checkSet(ctx, set, false)
	if err != nil {
		return i, err
	}
	if good == nil {
		return i, nil
	}
	before, err := r.lastGood(good)
	if err != nil {
		return r.orDrop(i, err)
	}
	after, _ := slurmconf.Read(slurmconf.Dir(i.staged), ofController...)
	i.anew = slices.ContainsFunc(confcheck.Restarts(before, after), func(one confcheck.Restart) bool { return !one.Waits })
	if i.anew || r.Preflight == PreflightOff {
		return i, nil // what only a start can change is no less urgent than jobs
	}
	removed := removedPartitions{set: set, gone: gone(before, after)}
	return r.orDrop(i, removed.refusal(func(string) string { return "slurmctld can tell only when it runs whether there are jobs in it" }))
}

// lastGood is the last good set as slurmctld would read it.
func (r *Reloader) lastGood(good *confset.Set) (*slurmconf.Set, error) {
	dir, err := r.stage(good)
	if err != nil {
		return nil, conf.InUse{Why: "cannot compare the configuration with the last good one: " + err.Error()}
	}
	defer r.live.Drop(dir)
	conf, _ := slurmconf.Read(slurmconf.Dir(dir), ofController...)
	return conf, nil
}

// checkEdit checks a set for the slurmctld that runs. A precheck may have done so already, but
// for the jobs in the partitions that the set removes.
func (r *Reloader) checkEdit(ctx context.Context, set *confset.Set) (inspection, error) {
	r.releaseJobs() // an edit that was overtaken may have held them
	if err := r.stillInUse(ctx, set); err != nil {
		return inspection{}, err
	}
	starts := r.nodeStarts(ctx)
	defer func() {
		answer := starts.answer()
		r.attempt.learn(func(f *facts) { f.starts = answer })
	}()
	i, prechecked := r.takePrecheck(set)
	if !prechecked {
		var err error
		if i, err = r.checkSet(ctx, set, true); err != nil {
			return i, err
		}
	}
	removed := removedPartitions{set, r.livePlace(), i.gone, i.nodes, i.enforces}
	r.attempt.learn(func(f *facts) { f.removed, f.changes = removed, i.changes })
	if err := r.mayGo(ctx, removed); err != nil {
		return r.orDrop(i, err)
	}
	return r.orDrop(i, r.pendingMayGo(ctx, removed, true))
}

// orDrop leaves nothing of a set that is refused.
func (r *Reloader) orDrop(i inspection, err error) (inspection, error) {
	if err == nil {
		return i, nil
	}
	r.live.Drop(i.staged)
	return inspection{}, err
}

// checkSet stages a set and checks it. The refusal names the files of the sources, where
// people edit.
func (r *Reloader) checkSet(ctx context.Context, set *confset.Set, running bool) (inspection, error) {
	staged, err := r.stage(set)
	if err != nil {
		return inspection{}, err
	}
	i, c := inspection{staged: staged}, candidate{Set: set, dir: staged}
	c.conf, c.findings = slurmconf.Read(slurmconf.Dir(staged), ofController...)
	if running {
		c.before, _ = slurmconf.Read(slurmconf.Dir(r.live.Current()), ofController...)
		i.changes = c.changes(r.live.Current())
	}
	if running && r.Preflight != PreflightOff {
		i.gone, i.nodes, i.enforces = gone(c.before, c.conf), changeOfNodes(c.before, c.conf), beginsToEnforce(c.before, c.conf)
	}
	if err := r.preflight(ctx, c); err != nil {
		return r.orDrop(i, err)
	}
	if running && r.Preflight != PreflightOff {
		r.logRestarts(c)
	}
	return i, nil
}

func (r *Reloader) preflight(ctx context.Context, c candidate) error {
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
	if refusal == nil && r.Preflight == PreflightFull {
		refusal = r.dryRun(ctx, c)
	}
	return refusal
}

// logRestarts says what slurmd takes as it starts only.
func (r *Reloader) logRestarts(c candidate) {
	for _, restart := range confcheck.Restarts(c.before, c.conf) {
		if f := restart.Finding(); restart.Waits {
			f.File = source(c.Set, f.File)
			r.Log(slog.LevelWarn, "slurmd that does not take the edit is restarted into it; its jobs run on", slog.String("warning", c.Named(c.dir, f.Error())))
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
	findings, _ := confcheck.Set(conf, confcheck.Options{Version: build.version, Controller: r.machineWith(dir), PluginDir: build.plugins, ConfDir: dir})
	return findings
}

// machineWith is the machine as slurmctld sees it once the set in dir is live: its
// scripts are where the configuration names them.
func (r *Reloader) machineWith(dir string) fs.FS {
	return withLive{os.DirFS("/"), strings.TrimPrefix(r.live.Current(), "/"), strings.TrimPrefix(dir, "/")}
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

func (w withLive) Open(name string) (fs.File, error)     { return w.FS.Open(w.place(name)) }
func (w withLive) Stat(name string) (fs.FileInfo, error) { return fs.Stat(w.FS, w.place(name)) }

// build is what is known of this container's Slurm: its version ("26.05") and where
// its plugins are, empty until a slurmctld runs that can be asked.
type build struct{ version, plugins string }

func (r *Reloader) slurmBuild(ctx context.Context, running bool) build {
	ctx, cancel := context.WithTimeout(ctx, lifecycle.QuestionLimit)
	defer cancel()
	var known build
	if b := r.build.Load(); b != nil {
		known = *b
	}
	if known.version == "" {
		known.version, _ = slurm.Version(ctx, r.Daemon.Path) // asked again next time
	}
	if known.plugins == "" && running {
		cluster, _ := r.Client.Config(ctx)
		known.plugins = cluster["PluginDir"]
	}
	r.build.Store(&known)
	return known
}

// taken makes Warnings of keys that the table does not have and that Slurm's own parser has
// just taken: this Slurm was built with more of them.
func taken(conf *slurmconf.Set, findings slurmconf.Findings) slurmconf.Findings {
	for i, f := range findings {
		if f.Rule == "unknown-key" && conf.File(f.File).Kind == slurmconf.SlurmConf {
			findings[i].Severity = slurmconf.Warning
		}
	}
	return findings
}

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
