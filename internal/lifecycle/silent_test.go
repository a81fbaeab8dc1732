package lifecycle

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// hung is a node whose slurmd hangs on the way down.
func hung() State {
	l, _ := play(isTerminated(), MainSilent{7})
	return l
}

// isSpeaking is a node whose slurmd cannot be killed, and for which a sackd is started.
func isSpeaking() State {
	l, _ := play(hung(), TimerFired{})
	return l
}

// TestHungSlurmd: one that hangs is killed, and another comes.
func TestHungSlurmd(t *testing.T) {
	for name, l := range map[string]State{"Ready": isReady(), "Stopping": isTerminated()} {
		_, actions := play(l, MainSilent{6})
		require.Empty(t, actions, "%s: that was the one before", name)
		l, actions = play(l, MainSilent{7})
		require.Contains(t, actions, Action(SignalMain{SigKill}), name)
		_, actions = play(l, MainSilent{7})
		require.Empty(t, actions, "%s: once", name)
	}
	l, actions := play(isReady(), MainSilent{7}, MainExited{PID: 7})
	require.Equal(t, []Action{StartMain{}}, actions)
	require.Equal(t, Starting, l.Phase)

	l, _ = play(hung(), MainExited{PID: 7})
	require.Equal(t, Reaching, l.Activity)
	l, _ = play(l, Answered{}, MainStarted{PID: 8, At: epoch}, MainReady{}, TimerFired{})
	require.Equal(t, Withdrawing, l.Activity)

	ends, _ := play(isTerminated(), Answered{Node: record()}, Done{}, Answered{})
	ends, actions = play(ends, MainSilent{7})
	require.Empty(t, actions)
	require.Equal(t, Ending, ends.Activity)
	_, actions = play(slurmctldLife(), Begun{}, MainStarted{PID: 7}, MainSilent{7})
	require.Empty(t, actions, "no node")
}

// TestSlurmdThatIsNotReady: on the way down a slurmd that is not READY is killed when
// slurmctld can be reached, and left alone as long as it cannot.
func TestSlurmdThatIsNotReady(t *testing.T) {
	l, _ := play(isTerminated(), MainExited{PID: 7}, TimerFired{}, Answered{}, MainStarted{PID: 8, At: epoch})
	l, actions := play(l, TimerFired{})
	require.Equal(t, []Action{Reach{l.question}}, actions)
	away, actions := play(l, Answered{Err: errors.New("no"), Steps: 1})
	require.IsType(t, Arm{}, actions[0])
	require.False(t, away.killed)
	l, actions = play(l, Answered{Steps: 1})
	require.Contains(t, actions, Action(SignalMain{SigKill}))
	l, actions = play(l, TimerFired{}, Answered{Steps: 1})
	require.Equal(t, []Action{Change{Number: l.question, Verb: StartSackd}}, actions, "SIGKILL did not end it")
}

// TestSackdSpeaks: where slurmd cannot be killed, or does not start, a sackd gives
// scontrol its credentials.
func TestSackdSpeaks(t *testing.T) {
	l := isSpeaking()
	require.Equal(t, StartingSackd, l.Activity)
	l, actions := play(l, Done{})
	require.Equal(t, []Action{AskJobs{Number: l.question, Need: certain}}, actions)
	for range unseenTries {
		l, _ = play(l, Answered{Node: record(busy), Steps: 1}, TimerFired{})
	}
	require.Equal(t, Draining, l.Activity)
	l, _ = play(l, Done{}, Answered{Node: record(busy, terminating), Steps: 1})
	require.Equal(t, Finishing, l.Activity)
	runs := slurm.Job{ID: 5, State: []string{"RUNNING"}}
	for name, e := range map[string]Answered{
		"a step runs":                 {Node: record(busy, terminating), Steps: 1},
		"a job without a step runs":   {Node: record(busy, terminating), Jobs: []slurm.Job{runs}, Counted: true},
		"nobody knows whether one is": {Node: record(busy, terminating)},
	} {
		waits, _ := play(l, StepsEnded{}, TimerFired{}, e)
		require.Equal(t, Finishing, waits.Activity, name)
	}
	completing := slurm.Job{ID: 5, State: []string{"COMPLETED", "COMPLETING"}}
	l, _ = play(l, StepsEnded{}, TimerFired{}, Answered{Node: record(busy, terminating), Jobs: []slurm.Job{completing}, Counted: true})
	require.Equal(t, Failing, l.Activity, "no slurmd will say that the job is over")
	l, _ = play(l, Done{}, Answered{Node: record(down, terminating)}, Done{}, Answered{})
	require.Equal(t, Exited, l.Phase)
	require.Equal(t, 137, l.Code, "slurmd is still there")

	l, _ = play(isTerminated(), MainExited{PID: 7})
	for range mutedFailures {
		if l.Activity == StartingSackd {
			break
		}
		l, _ = play(l, TimerFired{}, Answered{Steps: 1}, MainFailed{errors.New("no")})
	}
	l, actions = play(l, TimerFired{}, Answered{Steps: 1})
	require.Equal(t, []Action{Change{Number: l.question, Verb: StartSackd}}, actions)
}

// TestNobodySpeaks: without sackd the deadlines are what is left, and the status says so.
func TestNobodySpeaks(t *testing.T) {
	l, actions := play(isSpeaking(), Done{Err: errors.New("cannot find the program sackd")})
	require.IsType(t, Arm{}, actions[0])
	_, actions = play(l, TimerFired{})
	require.NotContains(t, actions, Change{Number: l.question, Verb: StartSackd})
	back, _ := play(l, MainExited{PID: 7})
	require.Equal(t, Reaching, back.Activity, "it could be killed after all")
	l, actions = play(l, DeadlinePassed{toLeave}, DeadlinePassed{toStop})
	require.Contains(t, actions, Action(KillSteps{}))
	require.Equal(t, 137, l.Code)
	require.Contains(t, l.Reason, "cannot find the program sackd")
}

// TestNotResponding: a slurmd that slurmctld has no answer of is restarted, once.
func TestNotResponding(t *testing.T) {
	l, _ := play(isTerminated(), Answered{Node: record(busy)}, Done{})
	again, actions := play(l, Answered{Node: record(busy, terminating, notResponding), Steps: 1})
	require.Contains(t, actions, Action(SignalMain{SigTerm}))
	require.Equal(t, Replacing, again.Activity)
	again, _ = play(again, MainExited{PID: 7}, Answered{}, MainStarted{PID: 8, At: epoch}, MainReady{}, TimerFired{},
		Answered{Node: record(busy, terminating, notResponding), Steps: 1})
	require.Equal(t, Finishing, again.Activity)
}
