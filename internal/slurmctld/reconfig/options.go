package reconfig

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Options are a Reloader's surroundings.
type Options struct {
	// Sources are the directories in which people edit.
	Sources []string
	// Delivered takes the digest of the source with slurm.conf after each look at it (confset.TextsDigest), empty if that
	// cannot be read; nil: nobody asks.
	Delivered func(digest string)
	// RunDir holds the live set, StateDir the last good one.
	RunDir, StateDir string
	Preflight        Preflight
	// Defaults: parameters that slurm.conf does not set get the values that a cluster of
	// pods needs. SlurmUser is one of them.
	Defaults  bool
	SlurmUser string
	// Elastic returns the elastic sets, whose files are in ElasticDir. It is nil where there are none.
	Elastic    func() []ElasticSet
	ElasticDir string
	// Programs are those that slurmctld runs for jobs, nil where there are none.
	Programs Programs
	// HoldAccounts keeps the cluster's accounts from being changed until release is called; nil: nobody changes them.
	HoldAccounts func(ctx context.Context) (release func(), err error)
	// Saved is what slurmctld has saved, nil where nobody looks after it.
	Saved  SavedState
	Daemon Daemon
	Table  *process.Table
	Client slurm.Client
	Feed   Feed
	// CopyKeys brings the daemon's copy of auth/slurm's keys up to date.
	CopyKeys func() error
	// Fatal returns slurmctld's last fatal line since a time, "" for none.
	Fatal func(since time.Time) string
	Log   func(slog.Level, string, ...slog.Attr)

	// sets are those that a configuration is made for, nil for none.
	sets *[]ElasticSet
}

// Daemon is the slurmctld of this container.
type Daemon struct {
	Path string
	Env  []string
	// Credential is nil when slurmctld runs as the agent's own user.
	Credential *syscall.Credential
}

func (d Daemon) uid() int {
	if d.Credential != nil {
		return int(d.Credential.Uid)
	}
	return os.Geteuid()
}

func (d Daemon) gid() int {
	if d.Credential != nil {
		return int(d.Credential.Gid)
	}
	return os.Getegid()
}

// SavedState is what slurmctld saves in StateSaveLocation.
type SavedState interface {
	// Prepare makes it ready for slurmctld's next start, and returns the id from which on slurmctld may give ids to
	// jobs, 0 where slurmctld knows that by itself. line is slurmctld's: "26.05". first and most are FirstJobId and
	// MaxJobId of slurm.conf, 0 where it does not set them.
	Prepare(ctx context.Context, dir, line string, first, most uint32) (uint32, error)
	// FirstID is Prepare's answer as it is now.
	FirstID() uint32
}

// Feed announces to the nodes' agents which configuration slurmctld has.
type Feed interface {
	// Hold keeps everything from the nodes until Announce: slurmctld may yet refuse the set.
	Hold()
	// Announce announces to all nodes the set in dir.
	Announce(dir string)
	// Restart has the slurmds on some hosts restarted into the set in dir, within a time.
	Restart(dir string, hosts map[string]bool, within time.Duration)
	// Hosts are the addresses of the agents that listen now.
	Hosts() map[string]bool
}

// Programs are those that slurmctld runs before a job (PrologSlurmctld).
type Programs interface {
	// Settled says whether they may be ended: a slurmctld that has just started may not know yet which jobs run. It
	// comes true within half a minute.
	Settled() bool
	// End ends those that run, and the next ones as they come. over: slurmctld has had the time to see that none runs.
	End() (over bool)
	// Allow lets them run again.
	Allow()
}

// Preflight says how a configuration is checked before slurmctld gets it.
type Preflight string

// The kinds of preflight.
const (
	PreflightOff   Preflight = "off"   // the files must be there and be text
	PreflightParse Preflight = "parse" // checked by package slurmconf, and read by Slurm's own parser
)

// ParsePreflight reads SLURMLET_PREFLIGHT.
func ParsePreflight(text string) (Preflight, error) {
	switch p := Preflight(text); p {
	case PreflightOff, PreflightParse:
		return p, nil
	}
	return "", errors.New("want off or parse; full has gone, because the last good set is put back where slurmctld refuses one")
}

// ElasticSet is what slurm.conf's defaults depend on of a set of nodes that slurmctld itself starts and
// ends. Nodes is a host list.
type ElasticSet struct {
	Name     string   `json:"name"`
	Nodes    string   `json:"nodes"`
	Min      int      `json:"min"`
	Features []string `json:"features,omitempty"`
	// Gres is what slurmctld's part of gres.conf has of the set.
	Gres string `json:"gres,omitempty"`
}
