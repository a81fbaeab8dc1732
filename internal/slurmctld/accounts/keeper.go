package accounts

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/pod/watch"
	"github.com/slurmlet/slurmlet/internal/slurmctld/accounts/planner"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// Options are a Keeper's surroundings.
type Options struct {
	// File is SLURMLET_ACCOUNTS, Record where the record of what was made is kept.
	File, Record string
	Client       Client
	// Cluster returns the ClusterName with which slurmdbd keeps the cluster, empty while slurmctld serves none or has no
	// accounting. Published returns what is closed when that may have changed.
	Cluster   func() string
	Published func() <-chan struct{}
	Done      <-chan struct{}
	Log       func(level slog.Level, text string, attrs ...slog.Attr)
}

// Keeper applies a file in slurmctld's pod, once slurmctld serves and at each edit. It fails closed: what cannot be read or
// asked changes nothing.
type Keeper struct {
	Options
	status atomic.Pointer[Status]
	edited chan struct{}
}

// Status is how the file and slurmdbd stand.
type Status struct {
	File string `json:"file"`
	// Applied is when slurmdbd had all that the file has, zero for never.
	Applied time.Time `json:"applied,omitzero"`
	// Why says what keeps the file, or some of its changes, from being applied, since Since. Reason is one of Reasons.
	Why    []string  `json:"why,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Changes counts the steps that were made since the container's start.
	Changes int `json:"changes"`
}

// Reasons are why a file is not applied: it cannot be read or has faults, its removals need a confirmation, slurmdbd does not
// say for certain what it has, slurmdbd refuses some of the changes, or the record cannot be read or written.
var Reasons = []string{"file", "confirmation", "slurmdbd", "refused", "record"}

// reasonOf is the reason for what Apply has returned. Without an error, slurmdbd has refused changes.
func reasonOf(err error) string {
	_, silent := errors.AsType[unanswered](err)
	_, faults := errors.AsType[slurmconf.Findings](err)
	switch {
	case err == nil:
		return "refused"
	case errors.Is(err, ErrConfirm):
		return "confirmation"
	case silent:
		return "slurmdbd"
	case faults:
		return "file"
	}
	return "record"
}

// Rows writes the status for people.
func (s *Status) Rows(row func(name, format string, args ...any)) {
	switch {
	case len(s.Why) > 0:
		row("Accounts", "%s is not applied since %s: %s", s.File, s.Since.Format(time.RFC3339), strings.Join(s.Why, "; "))
	case s.Applied.IsZero():
		row("Accounts", "%s is applied when slurmctld serves and slurmdbd knows the cluster", s.File)
	default:
		row("Accounts", "%s was applied %s; %d changes since the container's start", s.File, s.Applied.Format(time.RFC3339), s.Changes)
	}
}

// NewKeeper makes a Keeper.
func NewKeeper(o Options) *Keeper {
	k := &Keeper{Options: o, edited: make(chan struct{}, 1)}
	k.status.Store(&Status{File: o.File})
	return k
}

// Status returns the present one, nil without a file.
func (k *Keeper) Status() *Status {
	if k == nil {
		return nil
	}
	return k.status.Load()
}

const (
	// editCalm is how long the file must be left alone.
	editCalm = 200 * time.Millisecond
	// firstRetry and lastRetry bound the pause after an apply that has failed.
	firstRetry, lastRetry = 5 * time.Second, 5 * time.Minute
	// applyLimit bounds one apply: 10,000 users are a minute or two of slurmdbd's.
	applyLimit = 30 * time.Minute
)

// Run applies the file until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	files := watch.New(watch.Options{Done: k.Done, Calm: watch.For(editCalm), Changed: func() {
		select {
		case k.edited <- struct{}{}:
		default:
		}
	}})
	if err := files.Add(filepath.Dir(k.File)); err != nil {
		k.Log(slog.LevelWarn, "the kernel cannot report changes of SLURMLET_ACCOUNTS: it is looked at every "+watch.Every.String(),
			slog.Any("error", err))
		files.Tick(watch.Every)
	}
	go files.Run()
	failures, inStep := 0, ""
	for {
		published := k.Published()
		var due <-chan time.Time
		if cluster := k.Cluster(); cluster != "" {
			content, err := os.ReadFile(k.File)
			if state := cluster + "\x00" + string(content); err != nil || state != inStep {
				if err = k.apply(ctx, cluster, content, err); err == nil {
					failures, inStep = 0, state
				} else {
					failures++
					due = time.After(backoff.Grow(firstRetry, failures, lastRetry))
				}
			}
			if due != nil {
				published = nil // a slurmdbd that is away is not asked at each change of the state
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-k.edited:
		case <-published:
		case <-due:
		}
	}
}

// apply brings slurmdbd into step with the file's content, and publishes what came of it.
func (k *Keeper) apply(ctx context.Context, cluster string, content []byte, err error) error {
	var o Outcome
	reason := "file"
	if err == nil {
		file, findings := planner.Parse(k.File, content)
		if err = findings.Err(); err == nil {
			ctx, cancel := context.WithTimeout(ctx, applyLimit)
			defer cancel()
			o, err = Sync{Client: k.Client, Cluster: cluster, Record: k.Record}.Apply(ctx, &file, false, 0)
			reason = reasonOf(err)
		}
	}
	for _, step := range o.Done {
		k.Log(slog.LevelInfo, "accounts: "+step.Words)
	}
	s := *k.status.Load()
	s.Changes += len(o.Done)
	why := o.Why
	if err != nil {
		why = append(why, strings.Split(err.Error(), "\n")...)
	} else if len(o.Left) > 0 && len(why) == 0 {
		why = []string{"not done: " + o.Left[0].Words}
	}
	before := strings.Join(s.Why, "\n")
	s.Why, s.Reason = why, reason
	switch {
	case len(why) == 0:
		s.Applied, s.Since, s.Reason = time.Now(), time.Time{}, ""
	case s.Since.IsZero():
		s.Since = time.Now()
	}
	k.status.Store(&s)
	if len(why) == 0 {
		return nil
	}
	told := strings.Join(why, "\n")
	if told != before {
		k.Log(slog.LevelError, "SLURMLET_ACCOUNTS is not applied", slog.String("error", told))
	}
	return errors.New(told)
}
