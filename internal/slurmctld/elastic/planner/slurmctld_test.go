package planner

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// slurmctld is a small model of slurmctld, as update_node, power_save.c and ping_nodes.c of 24.11 and 26.05 have it.
// Times are seconds.
type slurmctld struct {
	t       *testing.T
	now     int
	records map[string]*cloud
	// saved are the records of the last seconds, the youngest last.
	saved []map[string]*cloud
	// keeps: a reason stays when the node is back (24.11 without slurmdbd).
	keeps bool
	// timed: a new record takes jobs at once (26.05).
	timed bool
	min   int
	// ran: it has run ResumeProgram or SuspendProgram.
	ran bool
}

// cloud is a record.
type cloud struct {
	state           string
	flags           map[string]bool
	reason, comment string
	reasonAt        int
	features        string
	weight, memory  int
	job             bool
	suspended       bool
	// admin: an administrator has set its state. seen: the agent has looked since.
	admin, seen                         bool
	asked, powered, lastBusy, lastHeard int
}

const (
	idleTime, suspendTimeout, resumeTimeout, slurmdTimeout = 30, 20, 60, 30

	drain, poweredDown, poweringDown, poweringUp, powerDown, powerUp, noRespond = "DRAIN", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "NOT_RESPONDING"
)

func (c *cloud) is(flags ...string) bool {
	return slices.ContainsFunc(flags, func(f string) bool { return c.flags[f] })
}

func (c *cloud) set(flag string) { c.flags[flag] = true }
func (c *cloud) clear(flags ...string) {
	maps.DeleteFunc(c.flags, func(f string, _ bool) bool { return slices.Contains(flags, f) })
}

// nodes is its answer to a look.
func (s *slurmctld) nodes() (all []slurm.Node, suspended map[string]bool) {
	suspended = map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.records)) {
		c := s.records[name]
		n := slurm.Node{
			Name: name, State: slices.Concat([]string{c.state}, slices.Sorted(maps.Keys(c.flags)), []string{"CLOUD", "DYNAMIC_NORM"}), CPUs: 2, RealMemory: int64(c.memory), Weight: c.weight,
			Comment: c.comment, Reason: c.reason, ReasonAt: slurm.Time(noon.Unix() + int64(c.reasonAt)),
		}
		if c.features != "" {
			n.Features = strings.Split(c.features, ",")
		}
		c.seen = c.admin
		if c.suspended {
			suspended[name] = true
		}
		all = append(all, n)
	}
	return all, suspended
}

func (s *slurmctld) because(c *cloud, reason string) {
	if c.reason != "" && !strings.Contains(c.reason, " : "+reason) {
		c.reason += " : " + reason
	} else if c.reason == "" {
		c.reason = reason
	}
	c.reasonAt = s.now
}

// back: the node is in service again.
func (s *slurmctld) back(c *cloud) {
	c.state, c.lastBusy = "IDLE", s.now
	if c.job {
		c.state = "ALLOCATED"
	}
	if c.is(drain) {
		return
	}
	if c.admin = false; !s.keeps {
		c.reason = ""
	}
}

// down takes the jobs off.
func (s *slurmctld) down(c *cloud) { c.state, c.job, c.suspended = "DOWN", false, false }

func (s *slurmctld) fail(c *cloud, reason string) {
	c.reason, c.reasonAt = reason, s.now
	s.down(c)
}

// drain requeues the jobs of a node that has not come up.
func (s *slurmctld) drain(c *cloud, reason string) {
	if c.state == "ALLOCATED" && c.is(poweredDown, poweringUp) {
		c.state, c.job, c.suspended = "IDLE", false, false
	}
	c.reason, c.reasonAt = reason, s.now
	c.set(drain)
}

func (s *slurmctld) resume(c *cloud) {
	was := c.is(drain)
	c.clear(drain, "FAIL")
	if c.is(poweringDown) {
		c.clear(poweringDown)
		c.set(poweredDown)
	}
	if c.state == "DOWN" || was {
		c.set(noRespond) // _require_node_reg
		c.lastHeard = s.now
	}
	if c.state == "DOWN" || was && c.state == "IDLE" {
		s.back(c)
	}
	c.admin = false
	if c.is(poweredDown) {
		c.lastBusy = 0
	}
}

// power is a second of _do_power_work.
func (s *slurmctld) power() {
	active := 0
	for _, name := range slices.Sorted(maps.Keys(s.records)) {
		c := s.records[name]
		if c.state != "DOWN" && !c.is(poweringDown, poweringUp, poweredDown, drain) && !c.suspended {
			active++
		}
		if c.is(poweredDown) && (c.is(powerUp) && !c.is(poweringDown) || c.job) {
			c.clear(powerUp, poweredDown)
			c.set(poweringUp)
			c.set(noRespond)
			c.asked, s.ran = s.now, true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.records)) {
		c := s.records[name]
		idle := c.lastBusy != 0 && c.lastBusy < s.now-idleTime && active > s.min
		if (c.state == "IDLE" || c.state == "DOWN") && !c.is(poweringUp, poweringDown) && !c.suspended && (c.is(powerDown) || idle) {
			if c.is(powerDown) && c.is(drain) {
				c.clear(drain)
				c.admin = c.admin && c.state == "DOWN"
			}
			c.clear(powerDown, poweredDown, noRespond)
			c.set(poweringDown)
			c.powered, s.ran = s.now, true
			active--
		}
		if c.is(poweringDown) && c.powered+suspendTimeout < s.now {
			c.clear(poweringDown)
			c.set(poweredDown)
			c.lastBusy = 0
		}
		if c.is(poweringUp) && c.is(noRespond) && s.now > c.asked+resumeTimeout {
			c.admin = c.admin && c.seen // else nobody knows whose the drain was
			c.clear(drain, powerDown, poweringUp, noRespond)
			c.set(poweredDown)
			s.because(c, reasons.TimedOut)
			s.down(c)
			c.lastBusy, s.ran = 0, true
		}
		if !c.is(poweredDown, poweringDown, poweringUp) && c.state != "DOWN" && c.lastHeard <= s.now-slurmdTimeout {
			s.because(c, reasons.NotResponding)
			s.down(c)
			c.set(noRespond)
		}
	}
}

// heard: the slurmd of a pod that is as old answers. It has just registered, or is pinged.
func (s *slurmctld) heard(name string, born int, registers bool) {
	c := s.records[name]
	switch {
	case c == nil, c.is(poweringUp) && born < c.asked, c.is(poweringDown), c.is(poweredDown) && !registers:
		return
	}
	if c.lastHeard = s.now; c.is(poweringUp, poweredDown) {
		c.lastBusy = s.now
	}
	c.clear(noRespond, poweringUp, poweredDown)
	if c.state == "DOWN" {
		s.back(c)
	}
}

// allocate gives a node to a job.
func (s *slurmctld) allocate(name string) {
	c := s.records[name]
	if c != nil && c.state == "IDLE" && !c.is(drain, "FAIL", poweringDown, powerDown, noRespond, "RESERVED") {
		c.state, c.job = "ALLOCATED", true
	}
}

func (s *slurmctld) finish(name string) {
	if c := s.records[name]; c != nil && c.job {
		c.job, c.suspended = false, false
		if c.lastBusy = s.now; c.state == "ALLOCATED" {
			c.state = "IDLE"
		}
	}
}

// do makes what slurmctld's agent asks for with one record.
func (s *slurmctld) do(step *Step, name string) {
	c := s.records[name]
	if step.Verb == Create {
		require.Nil(s.t, c, "%s is made twice", name)
		c = &cloud{state: "IDLE", flags: map[string]bool{poweredDown: true}, weight: 1}
		s.records[name] = c
		c.memory, c.features = 1024, "a"
		if strings.Contains(step.Text, "RealMemory=2048") {
			c.memory = 2048
		}
		if strings.Contains(step.Text, "Weight=5") {
			c.weight = 5
		}
	}
	if c == nil {
		return // it is refused
	}
	switch step.Verb {
	case Create, Activate:
		require.False(s.t, c.job || c.admin, "%s is settled: %v", name, c)
		if !s.timed {
			s.fail(c, reasons.SetNew)
			s.resume(c)
		}
		fallthrough
	case Update:
		for _, field := range step.Fields {
			switch key, value, _ := strings.Cut(field, "="); key {
			case "comment":
				c.comment = value
			case "availablefeatures":
				c.features = value
			case "weight":
				c.weight = map[string]int{"1": 1, "5": 5}[value]
			}
		}
	case Fail:
		c.admin = false
		s.fail(c, step.Text)
	case Drain:
		c.admin = false
		s.drain(c, step.Text)
	case Resume:
		s.resume(c)
	case PowerDown:
		if c.state == "DOWN" {
			c.clear(poweringUp)
		}
		if !c.is(poweringDown) {
			c.set(powerDown)
		}
	case PowerUp:
		if c.is(poweredDown) {
			c.set(powerUp)
		}
	case Delete:
		if !c.job && !c.suspended && !c.is("RESERVED") {
			delete(s.records, name)
		}
	}
}

// save keeps the records of this second, restart forgets the last seconds.
func (s *slurmctld) save() {
	now := map[string]*cloud{}
	for name, c := range s.records {
		one := *c
		one.flags = maps.Clone(c.flags)
		now[name] = &one
	}
	s.saved = append(s.saved, now)
	s.saved = s.saved[max(0, len(s.saved)-6):]
}

func (s *slurmctld) restart(forgets int) {
	s.records = s.saved[max(0, len(s.saved)-1-forgets)]
	s.saved = nil
	s.save()
	for _, c := range s.records {
		c.lastHeard = s.now
		if c.is(poweredDown) && !c.is(drain) && reasons.Has(c.reason, reasons.TimedOut) {
			c.admin = false // nobody remembers the drain that ResumeTimeout has lifted
		}
	}
}
