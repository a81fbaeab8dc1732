package planner

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// world is slurmctld with its agent, whose Keeper is tried, the controller, and the pods.
type world struct {
	*slurmctld
	keeper *Keeper
	sets   Sets
	// next is the agent's next look, and commands are those that slurmctld has not done yet.
	next     int
	commands []command
	// fates are what becomes of the next commands.
	fates []int
	steps int
	// wanted is what the controller has heard last; away: it hears and does nothing.
	wanted map[string]bool
	away   bool
	pods   map[string]*pod
	// broken are nodes whose pods do not start, broken since then.
	broken map[string]int
}

type pod struct{ born, ends int }

type command struct {
	Step
	node string
	at   int
}

const (
	podStarts, podEnds = 3, 2
	usualLook          = 60
)

func newWorld(t *testing.T, version byte) *world {
	w := &world{
		slurmctld: &slurmctld{t: t, records: map[string]*cloud{}, keeps: version&1 == 1, timed: version&2 == 2}, keeper: NewKeeper(), wanted: map[string]bool{},
		pods: map[string]*pod{}, broken: map[string]int{},
	}
	w.edit(0, 1, 1)
	w.save()
	return w
}

// edit changes the set.
func (w *world) edit(minimum, size, weight int) {
	more := fmt.Sprintf(`{"nodes":"a-[0-3]","min":%d,"cpuLimit":"2","memoryLimit":"%dMi","features":["a"],"weight":"%d"}`, minimum, 64+1024*size, weight)
	sets, err := w.sets.Take(map[string][]byte{"a": []byte(more)})
	require.NoError(w.t, err)
	w.sets, w.min, w.next = sets, minimum, w.now
}

// second lets one pass.
func (w *world) second() {
	w.now++
	w.commands = slices.DeleteFunc(w.commands, func(c command) bool {
		if c.at > w.now {
			return false
		}
		w.do(&c.Step, c.node)
		return true
	})
	if w.power(); w.ran {
		w.ran, w.next = false, w.now
	}
	w.kubernetes()
	if w.now >= w.next {
		w.look()
	}
}

// kubernetes has the pods start and end, and the controller make and delete them.
func (w *world) kubernetes() {
	for name, p := range w.pods {
		_, broken := w.broken[name]
		switch {
		case p.ends > 0 && w.now >= p.ends:
			delete(w.pods, name)
			w.next = w.now
		case p.ends == 0 && !broken && w.now >= p.born+podStarts:
			w.heard(name, p.born, w.now == p.born+podStarts)
		}
	}
	if w.away {
		return
	}
	for _, n := range append(slices.Collect(maps.Keys(w.records)), slices.Collect(maps.Keys(w.pods))...) {
		p, wanted := w.pods[n], w.wanted[n]
		switch {
		case p == nil && wanted:
			w.pods[n] = &pod{born: w.now}
		case p != nil && !wanted && p.ends == 0:
			p.ends = w.now + podEnds
		}
	}
}

func (w *world) moment() time.Time { return noon.Add(time.Duration(w.now) * time.Second) }

// look is the agent's.
func (w *world) look() {
	look := Look{At: w.moment(), Sets: w.sets, ResumeTimeout: resumeTimeout * time.Second, Timed: w.timed}
	look.Nodes, look.Suspended = w.nodes()
	if !w.away {
		look.Pod = func(name string) bool { return w.pods[name] != nil }
		for name, since := range w.broken {
			if w.pods[name] != nil {
				look.Failing = append(look.Failing, wire.Failure{Nodes: name, Reason: "ErrImagePull", Since: noon.Add(time.Duration(since) * time.Second)})
			}
		}
	}
	p := w.keeper.Plan(look, w.moment())
	w.wanted = map[string]bool{}
	for i := range look.Nodes {
		n := &look.Nodes[i]
		w.wanted[n.Name] = p.Elastic[n.Name] != "" && !n.Off()
	}
	w.next = w.now + usualLook
	if !p.Next.IsZero() {
		w.next = min(w.next, max(w.now+1, int(p.Next.Sub(noon).Seconds())))
	}
	for i := range p.Steps {
		w.next = w.now + 1
		for _, name := range p.Steps[i].Nodes {
			w.command(&p.Steps[i], name)
		}
	}
}

// command is done at once, unless its fate is another one.
func (w *world) command(s *Step, name string) {
	w.steps++
	w.allowed(s, name)
	fate := 0
	if len(w.fates) > 0 {
		fate, w.fates = w.fates[0], w.fates[1:]
	}
	var err error
	switch {
	case fate%4 == 3: // lost
		err = slurm.ErrUnreachable
	case fate%4 == 2 && s.Verb != Activate: // done when nobody waits for the answer any more; DOWN takes seconds at most
		err = slurm.ErrUnreachable
		w.commands = append(w.commands, command{*s, name, w.now + fate/4})
	default:
		w.do(s, name)
	}
	w.keeper.Tried(s, name, err, w.moment())
}

// allowed holds what no step may do.
func (w *world) allowed(s *Step, name string) {
	c := w.records[name]
	if s.Verb == Create {
		require.Nil(w.t, c, "%s is made twice", name)
		return
	}
	differs := c.comment != "" && c.comment != w.sets.All[0].comment(w.timed)
	switch s.Verb {
	case Delete:
		require.False(w.t, c.job || c.suspended || c.is("RESERVED"), "%s: %v", name, c)
		require.True(w.t, !c.admin || differs, "%s: %v", name, c)
	case PowerDown:
		require.False(w.t, c.job || c.suspended, "%s: %v", name, c)
		require.True(w.t, !c.admin || differs, "%s: %v", name, c)
	case Drain:
		require.False(w.t, c.admin || c.job && c.is(poweringUp, poweredDown), "%s: %v", name, c)
	case Fail:
		require.False(w.t, c.admin || !c.is(poweringUp, powerUp) && c.state != "DOWN", "%s: %v", name, c)
	case Resume, Activate, PowerUp:
		require.False(w.t, c.admin, "%s %s: %v", s.Verb, name, c)
	}
}

// move is something that happens.
func (w *world) move(what, more int) {
	name := fmt.Sprintf("a-%d", more%4)
	c := w.records[name]
	switch what % 20 {
	case 0:
		for range more {
			w.second()
			w.save()
		}
	case 1, 2, 3, 4:
		w.allocate(name)
	case 5, 6:
		w.finish(name)
	case 7:
		w.fates = append(w.fates, more)
	case 8:
		w.fates = append(w.fates, more, 0, more/2)
	case 9:
		w.edit(more%4, 1+more/4%2, 1+4*(more/8%2))
	case 10:
		w.restart(more % 6)
		w.keeper, w.commands, w.next = NewKeeper(), nil, w.now+1
	case 11:
		if w.pods[name] != nil { // lost
			delete(w.pods, name)
			w.next = w.now
		}
	case 12:
		w.away = !w.away
	case 13:
		if _, is := w.broken[name]; is {
			delete(w.broken, name)
		} else {
			w.broken[name] = w.now
		}
	}
	if c == nil {
		return
	}
	switch what % 20 {
	case 14:
		w.drain(c, "disk")
		c.admin = true
	case 15:
		w.fail(c, "fan")
		c.admin = true
	case 16:
		w.resume(c)
	case 17:
		if c.is("RESERVED") {
			c.clear("RESERVED")
		} else {
			c.set("RESERVED")
		}
	case 18:
		c.suspended = c.job && !c.suspended
	case 19:
		if !c.job && !c.is("RESERVED") {
			delete(w.records, name)
		}
	}
}

// calm ends all that is out of order, and gives everything its time.
func (w *world) calm() {
	w.away, w.broken, w.fates = false, map[string]int{}, nil
	for name, c := range w.records {
		c.clear("RESERVED")
		c.suspended = false
		w.finish(name)
		if c.admin {
			w.resume(c)
		}
	}
	for range int((lastBackoff + 10*time.Minute).Seconds()) {
		w.second()
	}
	steps := w.steps
	for range 300 {
		w.second()
	}
	require.Equal(w.t, steps, w.steps, "there is always something to do")
	up := 0
	for name := range w.sets.All[0].NodeNames.All() {
		c := w.records[name]
		require.NotNil(w.t, c, name)
		require.Equal(w.t, w.sets.All[0].comment(w.timed), c.comment)
		require.Equal(w.t, "IDLE", c.state, "%s: %v", name, c)
		require.False(w.t, c.is(drain, poweringDown, poweringUp, powerDown, powerUp, noRespond), "%s: %v", name, c)
		require.Equal(w.t, !c.is(poweredDown), w.pods[name] != nil, "%s: %v", name, c)
		if !c.is(poweredDown) {
			up++
		}
	}
	require.Equal(w.t, w.min, up)
}

// playMoves plays what bytes say.
func playMoves(t *testing.T, moves []byte) {
	if len(moves) == 0 {
		return
	}
	w := newWorld(t, moves[0])
	for moves = moves[1:min(len(moves), 401)]; len(moves) > 1; moves = moves[2:] {
		w.move(int(moves[0]), int(moves[1]))
	}
	w.calm()
}

// TestModel plays some stories of FuzzModel.
func TestModel(t *testing.T) {
	for seed := range uint64(*stories) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			moves := make([]byte, 1+2*random.IntN(200))
			for i := range moves {
				moves[i] = byte(random.Uint32())
			}
			for i := 1; i < len(moves); i += 6 { // time passes
				moves[i] = 0
			}
			playMoves(t, moves)
		})
	}
}

var stories = flag.Int("stories", 30, "how many stories TestModel plays")

// FuzzModel plays slurmctld, its agent, the controller and administrators. Whatever happens, no record is made twice,
// no job is taken off but where its pod does not start, an administrator's state stays, and when all behave, each
// record is as its set and the minimum is up.
func FuzzModel(f *testing.F) {
	f.Add([]byte{0, 0, 20, 9, 2, 0, 60})
	f.Add([]byte{1, 0, 5, 1, 0, 0, 10, 5, 0, 0, 60, 14, 0, 0, 60, 15, 1, 0, 60})
	f.Add([]byte{1, 0, 5, 9, 1, 7, 2, 7, 3, 8, 250, 0, 30, 10, 3, 0, 60, 9, 6, 1, 3, 0, 90})
	f.Add([]byte{0, 0, 9, 13, 1, 1, 1, 0, 200, 12, 0, 0, 100, 11, 1, 12, 0, 13, 1, 19, 2, 18, 1, 17, 3})
	f.Fuzz(playMoves)
}
