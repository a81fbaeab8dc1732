package reconfig

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// reader is Slurm's parser, and how often it was asked.
type reader struct {
	roll
	asked atomic.Int32
	err   error
	hangs bool
}

func (r *reader) Parse(ctx context.Context, _ string) error {
	r.asked.Add(1)
	if r.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return r.err
}

func (r *reader) Config(context.Context) (slurm.Config, error) {
	return nil, errors.New("no slurmctld")
}

func TestPrecheck(t *testing.T) {
	for name, c := range map[string]struct {
		preflight Preflight
		busy      bool
		refusal   error
		// between is what happens between the precheck and the check of the edit.
		between func(*testing.T, *Reloader)
		// before and after are how often Slurm's parser was asked before the check, and in all.
		before, after int
	}{
		"the edit is what was prechecked": {before: 1, after: 1},
		"the edit went on":                {between: change("ClusterName=c1\nPrologEpilogTimeout=6\n"), before: 1, after: 2},
		"it went on, and was calm again": {before: 1, after: 2, between: func(t *testing.T, r *Reloader) {
			change("ClusterName=c1\nPrologEpilogTimeout=6\n")(t, r)
			r.checkEarly(t.Context())
		}},
		"a refusal is no result yet": {refusal: errors.New("scontrol: no"), before: 1, after: 2},
		"another set is live meanwhile": {before: 1, after: 2, between: func(t *testing.T, r *Reloader) {
			require.NoError(t, r.place(read(t, r), ""))
		}},
		"it is too old": {before: 1, after: 2, between: func(_ *testing.T, r *Reloader) {
			r.prechecked.Load().began = time.Now().Add(-headStart)
		}},
		"a reload is under way":    {busy: true, after: 1},
		"nothing is to be checked": {preflight: PreflightOff},
	} {
		t.Run(name, func(t *testing.T) {
			parser := &reader{err: c.refusal}
			r := opened(t, parser, c.preflight)
			if c.busy {
				see(t, r, func(s *lifecycle.State) { s.Conf.Activity = conf.Spreading })
			}
			change("ClusterName=c1\nPrologEpilogTimeout=5\n")(t, r)
			r.checkEarly(t.Context())
			if p := r.prechecked.Load(); p != nil {
				<-p.over
			}
			assert.EqualValues(t, c.before, parser.asked.Load())
			if c.between != nil {
				c.between(t, r)
			}
			edit := read(t, r)
			i, err := r.checkEdit(t.Context(), edit)
			assert.Equal(t, c.refusal != nil, err != nil, "%v", err)
			assert.EqualValues(t, c.after, parser.asked.Load())
			if err == nil {
				assert.NoError(t, r.place(edit, i.staged))
				assert.FileExists(t, filepath.Join(r.LiveDir(), confset.Main))
			}
			left, err := filepath.Glob(r.LiveDir() + ".*")
			require.NoError(t, err)
			assert.LessOrEqual(t, len(left), 2, "the live set and the one before it")
		})
	}
}

// TestDismiss: nobody waits for a parser that takes its time.
func TestDismiss(t *testing.T) {
	r := opened(t, &reader{hangs: true}, PreflightParse)
	change("ClusterName=c1\nPrologEpilogTimeout=5\n")(t, r)
	r.checkEarly(t.Context())
	change("ClusterName=c1\nPrologEpilogTimeout=6\n")(t, r)
	_, counts := r.takePrecheck(read(t, r))
	assert.False(t, counts)
	left, err := filepath.Glob(r.LiveDir() + ".*")
	require.NoError(t, err)
	assert.Len(t, left, 1, "nothing of it is left")
}

// TestNothingToPrecheck: files that were written anew as they are need no precheck.
func TestNothingToPrecheck(t *testing.T) {
	r := opened(t, &reader{}, PreflightParse)
	change("ClusterName=c1\n")(t, r)
	r.checkEarly(t.Context())
	assert.Nil(t, r.prechecked.Load())
}

// opened is a Reloader with a live configuration.
func opened(t *testing.T, slurmctld slurm.Client, preflight Preflight) *Reloader {
	r, good := Open(Options{
		Sources: []string{t.TempDir()}, RunDir: t.TempDir(), StateDir: t.TempDir(), Preflight: cmp.Or(preflight, PreflightParse),
		Client: slurmctld, Feed: listeners{}, CopyKeys: func() error { return nil }, Log: func(slog.Level, string, ...slog.Attr) {},
	})
	require.Nil(t, good)
	change("ClusterName=c1\n")(t, r)
	live := read(t, r)
	require.NoError(t, r.place(live, ""))
	see(t, r, func(s *lifecycle.State) { s.Phase, s.Conf.Live = supervisor.Ready, live })
	return r
}

// see changes the state that the Reloader knows of.
func see(t *testing.T, r *Reloader, change func(*lifecycle.State)) {
	var next lifecycle.State
	if now := r.seen.Load(); now != nil {
		next = now.state
	}
	change(&next)
	r.Report(t.Context(), next, r.Status(next))
}

func read(t *testing.T, r *Reloader) *confset.Set {
	t.Helper()
	now := r.Read()
	require.NoError(t, now.Err)
	return now.Set
}

func change(text string) func(*testing.T, *Reloader) {
	return func(t *testing.T, r *Reloader) {
		require.NoError(t, os.WriteFile(filepath.Join(r.Sources[0], confset.Main), []byte(text), 0o600))
	}
}
