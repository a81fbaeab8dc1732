package agent

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/confset"
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

func TestRehearse(t *testing.T) {
	for name, c := range map[string]struct {
		preflight Preflight
		doing     reloading
		refusal   error
		// between is what happens between the rehearsal and the check of the edit.
		between func(*testing.T, *Agent)
		// before and after are how often Slurm's parser was asked before the check, and in all.
		before, after int
	}{
		"the edit is what was rehearsed": {before: 1, after: 1},
		"the edit went on":               {between: change("ClusterName=c1\nPrologEpilogTimeout=6\n"), before: 1, after: 2},
		"it went on, and was calm again": {before: 1, after: 2, between: func(t *testing.T, a *Agent) {
			change("ClusterName=c1\nPrologEpilogTimeout=6\n")(t, a)
			a.rehearse()
		}},
		"a refusal is no verdict yet": {refusal: errors.New("scontrol: no"), before: 1, after: 2},
		"another set is live meanwhile": {before: 1, after: 2, between: func(t *testing.T, a *Agent) {
			require.NoError(t, a.place(a.readSources().set, ""))
		}},
		"it is too old": {before: 1, after: 2, between: func(_ *testing.T, a *Agent) {
			a.conf.rehearsed.Load().began = time.Now().Add(-foresight)
		}},
		"a reload is under way":      {doing: spreading, after: 1},
		"nothing is to be looked at": {preflight: PreflightOff},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reader{err: c.refusal}
			a := rehearsing(t, r, c.preflight, c.doing)
			change("ClusterName=c1\nPrologEpilogTimeout=5\n")(t, a)
			a.rehearse()
			if rehearsed := a.conf.rehearsed.Load(); rehearsed != nil {
				<-rehearsed.over
			}
			assert.EqualValues(t, c.before, r.asked.Load())
			if c.between != nil {
				c.between(t, a)
			}
			edit := a.readSources()
			require.NoError(t, edit.err)
			i, err := a.checkEdition(edit.set)
			assert.Equal(t, c.refusal != nil, err != nil, "%v", err)
			assert.EqualValues(t, c.after, r.asked.Load())
			if err == nil {
				assert.NoError(t, a.place(edit.set, i.staged))
				assert.FileExists(t, filepath.Join(a.conf.live.Current(), confset.Main))
			}
			left, err := filepath.Glob(a.conf.live.Current() + ".*")
			require.NoError(t, err)
			assert.LessOrEqual(t, len(left), 2, "the live set and the one before it")
		})
	}
}

// TestDismiss: a parser that takes its time is not waited for.
func TestDismiss(t *testing.T) {
	r := &reader{hangs: true}
	a := rehearsing(t, r, PreflightParse, quiet)
	change("ClusterName=c1\nPrologEpilogTimeout=5\n")(t, a)
	a.rehearse()
	change("ClusterName=c1\nPrologEpilogTimeout=6\n")(t, a)
	assert.Nil(t, a.rehearsedSet(a.readSources().set))
	left, err := filepath.Glob(a.conf.live.Current() + ".*")
	require.NoError(t, err)
	assert.Len(t, left, 1, "nothing of it is left")
}

// TestNothingToRehearse: files that were written anew as they are need no rehearsal.
func TestNothingToRehearse(t *testing.T) {
	a := rehearsing(t, &reader{}, PreflightParse, quiet)
	change("ClusterName=c1\n")(t, a)
	a.rehearse()
	assert.Nil(t, a.conf.rehearsed.Load())
}

// rehearsing has a live configuration.
func rehearsing(t *testing.T, r *reader, preflight Preflight, doing reloading) *Agent {
	a := &Agent{client: r}
	a.Config.Preflight = cmp.Or(preflight, PreflightParse)
	a.conf.sources = []string{t.TempDir()}
	a.conf.live = confset.Store{Dir: t.TempDir(), Name: "conf", UID: os.Getuid(), GID: os.Getgid()}
	change("ClusterName=c1\n")(t, a)
	live := a.readSources().set
	a.status.Store(&Status{State: Ready, Conf: &ConfStatus{Doing: string(doing), live: live}})
	require.NoError(t, a.place(live, ""))
	return a
}

func change(text string) func(*testing.T, *Agent) {
	return func(t *testing.T, a *Agent) {
		require.NoError(t, os.WriteFile(filepath.Join(a.conf.sources[0], confset.Main), []byte(text), 0o600))
	}
}
