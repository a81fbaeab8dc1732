package agent

import (
	"errors"
	"slices"
	"strconv"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// confWorld is what the fuzzer does to slurmctld's configuration.
type confWorld struct {
	asked  []action // checks, waits, places, reconfigures and looks at the nodes, without an answer yet
	clocks []int
	// kept is the last good set on the volume, live what is in place, sound what was checked.
	kept, live *confset.Set
	sound      []*confset.Set
	// pushed: what slurmctld, or the nodes, have refused may be on the nodes, until another set is pushed.
	pushed bool
}

func confSet(n byte) *confset.Set { return &confset.Set{Hash: strconv.Itoa(int(n))} }

func confEdition(how byte) edition {
	if how == 15 {
		return edition{err: errors.New("the directory is gone")}
	}
	return edition{set: confSet(how & 3), forced: how&4 != 0, ticket: int(how >> 3)}
}

// begin: what there is at the start is for the script's first byte to say.
func (c *confWorld) begin(w *world, script []byte) {
	how := byte(0)
	if len(script) > 0 {
		how = script[0] >> 4
	}
	first := confEdition(how)
	w.life.next = &first
	if how&8 == 0 {
		c.kept = confSet(9)
		w.life.good = c.kept
	}
}

// happen lets something happen to the configuration, in the place of what only slurmd knows.
func (c *confWorld) happen(w *world, what, how byte) bool {
	switch what {
	case 15:
		w.feed(confEdition(how))
	case 6:
		if len(c.asked) > 0 {
			a := c.asked[0]
			c.asked = c.asked[1:]
			c.answer(w, a, how)
		}
	case 0:
		if len(c.clocks) > 0 {
			i := int(how) % len(c.clocks)
			n := c.clocks[i]
			c.clocks = slices.Delete(c.clocks, i, i+1)
			w.feed(reloadTimer{n})
		}
	default:
		return false
	}
	return true
}

func (c *confWorld) answer(w *world, a action, how byte) {
	switch a := a.(type) {
	case check:
		err := w.maybe(how)
		if how&3 == 3 && w.life.good != nil {
			err = w.keptByJobs(how)
		}
		if err == nil || w.life.doing == preparing && isInUse(err) {
			c.sound = append(c.sound, a.set)
		}
		w.feed(checked{a.number, "staged", nil, how&8 != 0, err})
	case checkFirst:
		c.answer(w, check{a.number, a.set}, how)
	case awaitLaunches:
		w.feed(launchesOver{a.number, w.keptByJobs(how)})
	case place:
		w.feed(placeEnded{a.number, w.maybe(how >> 3)})
	case reconfigure:
		err := w.maybe(how)
		if how == 2 {
			err = slurm.ErrUnreachable
		}
		w.feed(reconfigureEnded{a.number, err})
	case askNodes:
		c.tell(w, a, how)
	}
}

// tell: of up to seven nodes, some have another slurmd, some have not, and of some slurmctld
// has not heard; or it tells nothing.
func (c *confWorld) tell(w *world, a askNodes, how byte) {
	for _, n := range a.urge {
		require.NotEmpty(w, n)
	}
	e := nodesAsked{number: a.number, took: int(how & 1), missed: []string{"a", "b", "c"}[:how>>1&3], canary: how>>3 == 1}
	switch {
	case how == 15:
		e = nodesAsked{number: a.number, err: slurm.ErrUnreachable}
	case how&3 == 1:
		e.unheard = []string{"d", "e"}
	}
	w.feed(e)
}

func (w *world) keptByJobs(how byte) error {
	if how&1 == 1 {
		return inUse{"jobs"}
	}
	return nil
}

func (c *confWorld) carryOut(w *world, a action) {
	switch a := a.(type) {
	case check, checkFirst, awaitLaunches, askNodes:
		c.asked = append(c.asked, a)
	case place:
		require.Zero(w, w.life.main, "slurmctld reads a configuration that is being replaced")
		c.put(w, a.set)
		c.asked = append(c.asked, a)
	case reconfigure:
		require.False(w, w.stopped, "a reconfigure after SIGTERM")
		c.put(w, a.set)
		c.asked = append(c.asked, a)
		c.pushed = !a.set.Same(w.life.good)
	case keep:
		require.True(w, a.set.Same(c.live), "a set is kept that is not in place")
		c.kept, c.pushed = a.set, false
	case armReload:
		require.Positive(w, a.after)
		c.clocks = append(c.clocks, a.number)
	}
}

// put: only a set that was checked or was good is ever in place.
func (c *confWorld) put(w *world, set *confset.Set) {
	sound := slices.ContainsFunc(append(c.sound, c.kept, w.life.good), func(s *confset.Set) bool { return s != nil && s.Same(set) })
	require.True(w, sound, "an unchecked set is put in place")
	c.live = set
}

func (c *confWorld) check(w *world) {
	l := w.life
	if w.stopped || !l.wasReady || !l.state.Serving() {
		return
	}
	if l.reloading == quiet {
		require.True(w, l.live.Same(l.good), "a refused set stays live")
		require.True(w, c.live.Same(l.good), "a refused set stays in place")
		require.True(w, c.kept.Same(l.good), "the last good set is not kept")
		require.False(w, c.pushed, "nodes keep a refused set")
		require.Nil(w, l.trying)
		require.True(w, l.next == nil || l.state != Ready, "an edit is forgotten")
		require.True(w, l.next != nil || l.refused == nil || !l.refused.inUse || slices.Contains(c.clocks, l.clock), "an edit that jobs keep is forgotten")
		return
	}
	require.True(w, len(c.asked) > 0 || slices.Contains(c.clocks, l.clock), "the reload %s hangs", l.reloading)
}
