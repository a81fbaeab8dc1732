package agent

// A job of which nothing runs here is one that slurmctld has only begun to start:
// the node's container died, or slurmctld itself was stopped with the launch still
// to be sent. It is RUNNING for slurmctld until slurmd registers, which it asks
// for every twenty minutes or so.

// maxSeeks is how often slurmd registers again for them: the first time may be
// too early for slurmctld (BatchStartTimeout).
const maxSeeks = 3

// mistrust: slurmctld has been started anew.
func (l life) mistrust() (life, []action) {
	if !l.registers || l.state == Stopping || l.state == Exited {
		return l, nil
	}
	l.unclaimed, l.seeks = true, 0
	if l.state != Ready || l.doing != nothing {
		return l, nil // ready looks at it
	}
	return l.wait(missedAfter)
}

func (l life) seek() (life, []action) {
	if !l.unclaimed || l.state != Ready || l.main == 0 {
		return l, nil
	}
	l.question++
	return l, []action{seekLost{l.question}}
}

// sought has slurmd register again, which tells slurmctld of all jobs that run here.
func (l life) sought(e lostSought) (life, []action) {
	switch {
	case e.number != l.question || l.state != Ready || l.doing != nothing:
		return l, nil
	case e.err != nil:
		return l.wait(missedAfter)
	}
	l.seeks++
	l.unclaimed = len(e.lost) > 0 && l.seeks < maxSeeks
	if len(e.lost) == 0 {
		return l, nil
	}
	return l.hangUp() // ready looks again
}
