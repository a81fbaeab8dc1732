package lifecycle

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// confWorld is what the fuzzer does to slurmctld's configuration.
type confWorld struct {
	asked  []Action // checks, waits, places, reconfigures and looks at the nodes, without an answer yet
	clocks []int
	// kept is the last good set on the volume, live what is in place, sound what was checked.
	kept, live *confset.Set
	sound      []*confset.Set
	// pushed: what slurmctld, or the nodes, have refused may be on the nodes, until another set is pushed.
	pushed bool
	// silenced: the nodes' agents hear nothing of the configuration.
	silenced bool
}

func confSet(n byte) *confset.Set { return &confset.Set{Hash: strconv.Itoa(int(n))} }

// edit has the sources change, or another agent have slurmctld's state.
func (w *world) edit(how byte) {
	if how == 14 {
		w.feed(StateHeld{Why: "another agent has it"})
		return
	}
	w.feed(confRevision(how))
}

func confRevision(how byte) conf.Revision {
	if how == 15 {
		return conf.Revision{Err: errors.New("the directory is gone"), At: epoch}
	}
	return conf.Revision{Set: confSet(how & 3), Forced: how&4 != 0, Request: int(how >> 3), At: epoch}
}

// begin: what there is at the start is for the script's first byte to say.
func (c *confWorld) begin(w *world, script []byte) {
	how := byte(0)
	if len(script) > 0 {
		how = script[0] >> 4
	}
	next := formatEvent(State{}, confRevision(how))
	w.first += " next=" + quoted(strings.TrimPrefix(next, "edit "))
	if how&8 == 0 {
		c.kept = confSet(9)
		w.first += " good=9"
	}
}

// settle answers the oldest of what the agent has begun.
func (c *confWorld) settle(w *world, how byte) {
	if len(c.asked) > 0 {
		a := c.asked[0]
		c.asked = c.asked[1:]
		c.answer(w, a, how)
	}
}

func (c *confWorld) fire(w *world, how byte) {
	if len(c.clocks) > 0 {
		i := int(how) % len(c.clocks)
		n := c.clocks[i]
		c.clocks = slices.Delete(c.clocks, i, i+1)
		w.feed(conf.ReloadTimerFired{Number: n})
	}
}

func (c *confWorld) answer(w *world, a Action, how byte) {
	switch a := a.(type) {
	case conf.Check:
		err := w.maybe(how)
		if how&3 == 3 && w.life.Conf.Good != nil {
			err = w.keptByJobs(how)
		}
		if err == nil || w.life.Activity == supervisor.ChoosingConf && conf.IsInUse(err) {
			c.sound = append(c.sound, a.Set)
		}
		w.feed(conf.Checked{Number: a.Number, Staged: "staged", Changes: nil, Anew: how&8 != 0, Err: err})
	case conf.CheckFirst:
		c.answer(w, conf.Check{Number: a.Number, Set: a.Set}, how)
	case conf.AwaitLaunches:
		w.feed(conf.LaunchesOver{Number: a.Number, Err: w.keptByJobs(how)})
	case conf.Place:
		w.feed(conf.PlaceEnded{Number: a.Number, Err: w.maybe(how >> 3)})
	case conf.Reconfigure:
		err := w.maybe(how)
		switch how {
		case 2:
			err = slurm.ErrUnreachable
		case 3:
			err = conf.HeldUp{Why: "a silent connection"}
		}
		w.feed(conf.ReconfigureEnded{Number: a.Number, Err: err})
	case conf.AskNodes:
		c.tell(w, a, how)
	}
}

// tell: of up to seven nodes, some have another slurmd, some have not, and of some slurmctld
// has not heard; or it tells nothing.
func (c *confWorld) tell(w *world, a conf.AskNodes, how byte) {
	for _, n := range a.Restart {
		require.NotEmpty(w, n)
	}
	e := conf.NodesAsked{Number: a.Number, Took: int(how & 1), Canary: how>>3 == 1}
	if missed := how >> 1 & 3; missed > 0 {
		e.Missed = []string{"a", "b", "c"}[:missed]
	}
	switch {
	case how == 15:
		e = conf.NodesAsked{Number: a.Number, Err: slurm.ErrUnreachable}
	case how&3 == 1:
		e.Unheard = []string{"d", "e"}
	}
	w.feed(e)
}

func (w *world) keptByJobs(how byte) error {
	if how&1 == 1 {
		return conf.InUse{Why: "jobs"}
	}
	return nil
}

func (c *confWorld) carryOut(w *world, a Action) {
	switch a := a.(type) {
	case conf.Check, conf.CheckFirst, conf.AwaitLaunches, conf.AskNodes:
		c.asked = append(c.asked, a)
	case conf.Place:
		require.Zero(w, w.life.Main, "slurmctld reads a configuration that is being replaced")
		c.put(w, a.Set)
		c.asked = append(c.asked, a)
	case conf.Reconfigure:
		require.False(w, w.stopped, "a reconfigure after SIGTERM")
		c.put(w, a.Set)
		c.asked = append(c.asked, a)
		c.pushed, c.silenced = !a.Set.Same(w.life.Conf.Good), true
	case conf.Keep:
		require.True(w, w.life.Conf.Good.Same(c.live), "a set is kept that is not in place")
		c.kept, c.pushed = c.live, false
	case conf.ArmReload:
		require.Positive(w, a.After)
		c.clocks = append(c.clocks, a.Number)
	}
}

// put: only a set that was checked or was good is ever in place.
func (c *confWorld) put(w *world, set *confset.Set) {
	sound := slices.ContainsFunc(append(c.sound, c.kept, w.life.Conf.Good), func(s *confset.Set) bool { return s != nil && s.Same(set) })
	require.True(w, sound, "an unchecked set is put in place")
	c.live = set
}

// hear: the agents hear of the configuration between a step and its actions.
func (c *confWorld) hear(news conf.Announcement) {
	if news != conf.NoAnnouncement {
		c.silenced = false
	}
}

func (c *confWorld) check(w *world) {
	l := w.life
	if w.stopped || !l.WasReady || !l.Phase.Serving() {
		return
	}
	if l.Conf.Activity == conf.Idle {
		require.True(w, l.Conf.Live.Same(l.Conf.Good), "a refused set stays live")
		require.True(w, c.live.Same(l.Conf.Good), "a refused set stays in place")
		require.True(w, c.kept.Same(l.Conf.Good), "the last good set is not kept")
		require.False(w, c.pushed, "nodes keep a refused set")
		require.False(w, c.silenced, "the nodes' agents do not hear of the live set")
		require.Nil(w, l.Conf.Trying)
		require.True(w, l.Conf.Next == nil || l.Phase != supervisor.Ready, "an edit is forgotten")
		require.True(w, l.Conf.Next != nil || l.Conf.Refused == nil || !l.Conf.Refused.InUse || slices.Contains(c.clocks, l.Conf.Timer), "an edit that jobs keep is forgotten")
		return
	}
	if l.Activity == supervisor.Replacing { // slurmctld hangs, and is being ended
		require.True(w, l.Killed || slices.Contains(w.timers, l.Timer), "a slurmctld that hangs is not ended")
		return
	}
	require.True(w, len(c.asked) > 0 || slices.Contains(c.clocks, l.Conf.Timer), "the reload %s hangs", l.Conf.Activity)
}
