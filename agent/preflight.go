package agent

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
	return store.Stage(set, a.render)
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
	// staged is where it lies ready, changes what it changes, gone the partitions that it takes
	// away. anew: some of it counts for a slurmctld that starts only.
	staged  string
	changes []string
	gone    []slurmconf.Partition
	anew    bool
}

// checkFirst is checkSet for a set that slurmctld is to be started with. What can be known
// before it runs is compared with the last good set: slurmctld has jobs in its partitions,
// maybe, and nodes that run with it.
func (a *Agent) checkFirst(set, good *confset.Set) (inspection, error) {
	i, err := a.checkSet(context.Background(), set, false)
	if err != nil {
		return i, err
	}
	if good == nil {
		return i, nil
	}
	before, err := a.lastGood(good)
	if err != nil {
		return a.orDrop(i, err)
	}
	after, _ := slurmconf.Read(slurmconf.Dir(i.staged), ofController...)
	i.anew = len(confcheck.Restarts(before, after)) > 0
	if i.anew || a.Config.Preflight == PreflightOff {
		return i, nil // what only a start can change is no less urgent than jobs
	}
	d := departure{set: set, gone: gone(before, after)}
	return a.orDrop(i, d.refusal(func(string) string { return "slurmctld can tell only when it runs whether there are jobs in it" }))
}

// lastGood is the last good set as slurmctld would read it.
func (a *Agent) lastGood(good *confset.Set) (*slurmconf.Set, error) {
	dir, err := a.stage(good)
	if err != nil {
		return nil, inUse{"cannot compare the configuration with the last good one: " + err.Error()}
	}
	defer a.conf.live.Drop(dir)
	conf, _ := slurmconf.Read(slurmconf.Dir(dir), ofController...)
	return conf, nil
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
	if err := a.preflight(ctx, c); err != nil {
		return a.orDrop(i, err)
	}
	if running && a.Config.Preflight != PreflightOff {
		a.tellWaiting(c)
	}
	return i, nil
}

func (a *Agent) preflight(ctx context.Context, c candidate) error {
	if a.Config.Preflight == PreflightOff {
		return nil
	}
	parsed := a.parsing(ctx, c)
	findings := a.judged(ctx, c.conf, c.dir, c.before != nil)
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
	if refusal == nil && a.Config.Preflight == PreflightFull {
		refusal = a.tried(ctx, c)
	}
	return refusal
}

// tellWaiting says what slurmd takes as it starts only.
func (a *Agent) tellWaiting(c candidate) {
	for _, r := range confcheck.Restarts(c.before, c.conf) {
		if f := r.Finding(); r.Waits {
			f.File = source(c.Set, f.File)
			a.tell(slog.LevelWarn, "slurmd that does not take the edit is restarted into it; its jobs run on", slog.String("warning", c.Named(c.dir, f.Error())))
		}
	}
}

// parsing has Slurm's own parser read what can be read, while slurmctld is asked for its
// version: at a start, slurmctld waits for both.
func (a *Agent) parsing(ctx context.Context, c candidate) (wait func() (said bool, refusal error)) {
	if c.findings.Err() != nil {
		return func() (bool, error) { return false, nil }
	}
	type answer struct {
		said    bool
		refusal error
	}
	answers := make(chan answer, 1)
	go func() {
		said, refusal := a.parsed(ctx, c)
		answers <- answer{said, refusal}
	}()
	return func() (bool, error) {
		got := <-answers
		return got.said, got.refusal
	}
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
	_, words, _ := strings.Cut(slurmconf.Hide(err.Error()), ": ")
	return true, errors.New(where(c.conf, c.Set, words) + "Slurm's parser: " + c.Named(c.dir, words))
}

// judged is what package check says. Of a Slurm that it does not know it says
// nothing: a newer one may take what those before it did not.
func (a *Agent) judged(ctx context.Context, conf *slurmconf.Set, dir string, running bool) slurmconf.Findings {
	build := a.slurmBuild(ctx, running)
	if !slices.Contains(keys.Versions, build.version) {
		return nil
	}
	findings, _ := confcheck.Set(conf, confcheck.Options{Version: build.version, Controller: a.machineWith(dir), PluginDir: build.plugins, ConfDir: dir})
	return findings
}

// machineWith is the machine as slurmctld sees it once the set in dir is live: its
// scripts are where the configuration names them.
func (a *Agent) machineWith(dir string) fs.FS {
	live := strings.TrimPrefix(filepath.Dir(a.Config.placedConf()), "/")
	return withLive{os.DirFS("/"), live, strings.TrimPrefix(dir, "/")}
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

// restarts are the changes that a reconfigure does not make. Those that cannot wait for
// a restart are refused as long as slurmctld runs: those that lose jobs, and another port,
// under which neither scontrol nor the nodes would find it.
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
