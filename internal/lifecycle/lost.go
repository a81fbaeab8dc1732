package lifecycle

// A job of which nothing runs here is one that slurmctld has only begun to start:
// the node's container or its slurmd died, or slurmctld itself was stopped with the launch still
// to be sent. It is RUNNING for slurmctld until slurmd registers, which it asks
// for every twenty minutes or so.

// maxSeeks is how often slurmd registers again for them: the first time may be
// too early for slurmctld (BatchStartTimeout).
const maxSeeks = 3

// mistrust: slurmctld has been started anew.
func (l State) mistrust() (State, []Action) {
	if !l.Registers || l.Phase == Stopping || l.Phase == Exited {
		return l, nil
	}
	l.unclaimed, l.seeks = true, 0
	if l.Phase != Ready || l.Activity != Idle {
		return l, nil // ready looks at it
	}
	return l.wait(missedAfter)
}

func (l State) seek() (State, []Action) {
	if !l.unclaimed || l.Phase != Ready || l.Main == 0 {
		return l, nil
	}
	l.question++
	return l, []Action{FindLostJobs{l.question}}
}

// sought has slurmd register again, which tells slurmctld of all jobs that run here.
func (l State) sought(e LostJobsFound) (State, []Action) {
	switch {
	case e.Number != l.question || l.Phase != Ready || l.Activity != Idle:
		return l, nil
	case e.Err != nil:
		return l.wait(missedAfter)
	}
	l.seeks++
	l.unclaimed = len(e.Lost) > 0 && l.seeks < maxSeeks
	if len(e.Lost) == 0 {
		return l, nil
	}
	return l.hangUp() // ready looks again
}
