package reasons

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	for text, want := range map[string]Owner{
		"":                                       Nobody,
		Terminating:                              Agent,
		Kept + "job 7 names the node":            Agent,
		Kept + "x : Not responding":              Agent,
		ByCommand + "maintenance":                Command,
		ByKubernetes + "cordoned":                Kubernetes,
		ByDisk + "95 % full":                     Disk,
		ByPods + "job 7 has left pods: a/b":      Pods,
		NotResponding:                            Silent,
		TimedOut:                                 Silent,
		DuplicateJob:                             Relaunched,
		DuplicateJob + " : Not responding":       Relaunched,
		"Duplicate jobid, says the operator":     Person,
		"Not responding to me":                   Person,
		"Low socket*core*thread count, Low CPUs": Registration,
		"CoreSpec differ":                        Registration,
		"gres/gpu count reported lower than configured (0 < 1)": Registration,
		"disk : Not responding":                                 Person,
		"slurmlet":                                              Person,
		"Prolog error":                                          Person,
	} {
		require.Equal(t, want, Of(text), text)
	}
}

// TestBeginnings: no reason of slurmlet's begins as another owner's, and slurmctld shows all of it (240 characters).
func TestBeginnings(t *testing.T) {
	for owner, text := range map[Owner]string{Agent: ByAgent, Command: ByCommand, Kubernetes: ByKubernetes, Disk: ByDisk, Pods: ByPods} {
		require.Equal(t, owner, Of(text+"x"))
	}
	for _, text := range []string{Terminating, Resized, Stale, Back, Renewed, LostMachine, SetResized, SetRemoved, SetNew} {
		require.Equal(t, Agent, Of(text))
		require.NotContains(t, text, separator)
		require.Less(t, len(text), 240)
	}
	require.True(t, OfSet(SetResized))
	require.True(t, OfSet(SetRemoved))
	require.False(t, OfSet(SetNew))
}

func TestHas(t *testing.T) {
	require.True(t, Has("disk : Not responding", NotResponding))
	require.True(t, Has(NotResponding, NotResponding))
	require.False(t, Has("disk, Not responding", NotResponding))
	why, kept := IsKept(Kept + "StatefulSet n makes it again : Not responding")
	require.True(t, kept)
	require.Equal(t, "StatefulSet n makes it again", why)
	_, kept = IsKept("disk : " + Kept)
	require.False(t, kept)
}

// FuzzOf: what slurmctld appends changes no owner.
func FuzzOf(f *testing.F) {
	f.Add("slurmlet: x")
	f.Add(" : ")
	f.Fuzz(func(t *testing.T, text string) {
		if Of(text) != Nobody && !strings.HasSuffix(text, " ") && !strings.HasSuffix(text, " :") {
			require.Equal(t, Of(text), Of(text+" : Not responding"))
		}
	})
}
