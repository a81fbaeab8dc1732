package agent

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// hung is a node whose slurmd hangs on the way down.
func hung() life {
	l, _ := play(isTerminated(), mainSilent{7})
	return l
}

// isSpeaking is a node whose slurmd cannot be killed, and for which a sackd is started.
func isSpeaking() life {
	l, _ := play(hung(), timerFired{})
	return l
}

// TestHungSlurmd: one that hangs is killed, and another comes.
func TestHungSlurmd(t *testing.T) {
	for name, l := range map[string]life{"Ready": isReady(), "Stopping": isTerminated()} {
		_, actions := play(l, mainSilent{6})
		require.Empty(t, actions, "%s: that was the one before", name)
		l, actions = play(l, mainSilent{7})
		require.Contains(t, actions, action(signalMain{sigKill}), name)
		_, actions = play(l, mainSilent{7})
		require.Empty(t, actions, "%s: once", name)
	}
	l, actions := play(isReady(), mainSilent{7}, mainExited{pid: 7})
	require.Equal(t, []action{startMain{}}, actions)
	require.Equal(t, Starting, l.state)

	l, _ = play(hung(), mainExited{pid: 7})
	require.Equal(t, reaching, l.doing)
	l, _ = play(l, answered{}, mainStarted{pid: 8, at: epoch}, mainReady{}, timerFired{})
	require.Equal(t, withdrawing, l.doing)

	ends, _ := play(isTerminated(), answered{node: record()}, carriedOut{}, answered{})
	ends, actions = play(ends, mainSilent{7})
	require.Empty(t, actions)
	require.Equal(t, ending, ends.doing)
	_, actions = play(slurmctldLife(), begun{}, mainStarted{pid: 7}, mainSilent{7})
	require.Empty(t, actions, "no node")
}

// TestSlurmdThatIsNotReady: on the way down a slurmd that is not READY is killed when
// slurmctld can be reached, and left alone as long as it cannot.
func TestSlurmdThatIsNotReady(t *testing.T) {
	l, _ := play(isTerminated(), mainExited{pid: 7}, timerFired{}, answered{}, mainStarted{pid: 8, at: epoch})
	l, actions := play(l, timerFired{})
	require.Equal(t, []action{reach{l.question}}, actions)
	away, actions := play(l, answered{err: errors.New("no"), steps: 1})
	require.IsType(t, arm{}, actions[0])
	require.False(t, away.killed)
	l, actions = play(l, answered{steps: 1})
	require.Contains(t, actions, action(signalMain{sigKill}))
	l, actions = play(l, timerFired{}, answered{steps: 1})
	require.Equal(t, []action{speak{l.question}}, actions, "SIGKILL did not end it")
}

// TestSackdSpeaks: where slurmd cannot be killed, or does not start, a sackd gives
// scontrol its credentials.
func TestSackdSpeaks(t *testing.T) {
	l := isSpeaking()
	require.Equal(t, speaking, l.doing)
	l, actions := play(l, carriedOut{})
	require.Equal(t, []action{ask{l.question}}, actions)
	for range unseenTries {
		l, _ = play(l, answered{node: record(busy), steps: 1}, timerFired{})
	}
	require.Equal(t, draining, l.doing)
	l, _ = play(l, carriedOut{}, answered{node: record(busy, terminating), steps: 1})
	require.Equal(t, finishing, l.doing)
	runs := slurm.Job{ID: 5, State: []string{"RUNNING"}}
	for name, e := range map[string]answered{
		"a step runs":                 {node: record(busy, terminating), steps: 1},
		"a job without a step runs":   {node: record(busy, terminating), jobs: []slurm.Job{runs}, counted: true},
		"nobody knows whether one is": {node: record(busy, terminating)},
	} {
		waits, _ := play(l, stepsEnded{}, timerFired{}, e)
		require.Equal(t, finishing, waits.doing, name)
	}
	completing := slurm.Job{ID: 5, State: []string{"COMPLETED", "COMPLETING"}}
	l, _ = play(l, stepsEnded{}, timerFired{}, answered{node: record(busy, terminating), jobs: []slurm.Job{completing}, counted: true})
	require.Equal(t, failing, l.doing, "no slurmd will say that the job is over")
	l, _ = play(l, carriedOut{}, answered{node: record(down, terminating)}, carriedOut{}, answered{})
	require.Equal(t, Exited, l.state)
	require.Equal(t, 137, l.code, "slurmd is still there")

	l, _ = play(isTerminated(), mainExited{pid: 7})
	for range mutedFailures {
		if l.doing == speaking {
			break
		}
		l, _ = play(l, timerFired{}, answered{steps: 1}, mainFailed{errors.New("no")})
	}
	l, actions = play(l, timerFired{}, answered{steps: 1})
	require.Equal(t, []action{speak{l.question}}, actions)
}

// TestNobodySpeaks: without sackd the deadlines are what is left, and the status says so.
func TestNobodySpeaks(t *testing.T) {
	l, actions := play(isSpeaking(), carriedOut{err: errors.New("cannot find the program sackd")})
	require.IsType(t, arm{}, actions[0])
	_, actions = play(l, timerFired{})
	require.NotContains(t, actions, speak{l.question})
	back, _ := play(l, mainExited{pid: 7})
	require.Equal(t, reaching, back.doing, "it could be killed after all")
	l, actions = play(l, deadline{toLeave}, deadline{toStop})
	require.Contains(t, actions, action(killSteps{}))
	require.Equal(t, 137, l.code)
	require.Contains(t, l.reason, "cannot find the program sackd")
}

// TestNotResponding: a slurmd that slurmctld has no answer of is restarted, once.
func TestNotResponding(t *testing.T) {
	l, _ := play(isTerminated(), answered{node: record(busy)}, carriedOut{})
	again, actions := play(l, answered{node: record(busy, terminating, notResponding), steps: 1})
	require.Contains(t, actions, action(signalMain{sigTerm}))
	require.Equal(t, replacing, again.doing)
	again, _ = play(again, mainExited{pid: 7}, answered{}, mainStarted{pid: 8, at: epoch}, mainReady{}, timerFired{},
		answered{node: record(busy, terminating, notResponding), steps: 1})
	require.Equal(t, finishing, again.doing)
}
