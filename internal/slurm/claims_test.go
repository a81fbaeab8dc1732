package slurm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// claims are as squeue of 24.11.5 and 26.05.5 shows them.
const claims = `7_[1-3]|7|n-[1-2],x|||PD
9+1|10||n-3||PD
12|12|||n-4|R
13|13|n-5||n-5|R
14|14||||PD
`

func TestClaims(t *testing.T) {
	s := scontrol(t, claims, "", "0")
	s.Squeue = s.Path
	_, err := s.Claims(t.Context())
	require.ErrorContains(t, err, "show reservation") // it has had squeue's answer

	s = scontrol(t, `{"reservations": [{"name": "all", "node_list": "n-[1-9]", "flags": ["MAINT", "ALL_NODES"]}, {"name": "r", "node_list": "n-[6-7]", "flags": [], "partition": "p"}]}`, "", "0")
	s.Squeue = scontrol(t, claims, "", "0").Path
	all, err := s.Claims(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []Claim{
		{Job: "7_[1-3]", ID: "7", Nodes: "n-[1-2],x"},
		{Job: "9+1", ID: "10", Excluded: "n-3"},
		{Job: "12", ID: "12", Holds: "n-4"},
		{Job: "13", ID: "13", Nodes: "n-5", Holds: "n-5"},
		{Reservation: "all", Nodes: "n-[1-9]", All: true},
		{Reservation: "r", Nodes: "n-[6-7]", Partition: "p"},
	}, all)
	assert.True(t, all[0].Pending())
	assert.False(t, all[3].Pending())
	assert.False(t, all[5].Pending())

	named, err := Named(all, []string{"n-1", "n-3", "n-4", "n-5", "n-6", "n-8", "x"})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{
		"n-1": "job 7_[1-3] names the node", "x": "job 7_[1-3] names the node", "n-3": "job 9+1 excludes the node",
		"n-5": "job 13 names the node", "n-6": "reservation r has the node",
	}, named)
	held, err := Held(all, []string{"n-3", "n-4", "n-5"})
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"n-4": true, "n-5": true}, held)

	_, err = Named([]Claim{{Job: "5", Nodes: "n[1"}}, []string{"x"})
	require.ErrorContains(t, err, "cannot find out which nodes job 5 names")
	_, err = Held([]Claim{{Job: "5", Holds: "n[1"}}, []string{"x"})
	require.Error(t, err)
}

// TestNoClaims: what cannot be read is no answer.
func TestNoClaims(t *testing.T) {
	for name, text := range map[string]string{"fields are missing": "7|n1|||PD\n", "a job is missing": "|7|n1|||PD\n"} {
		s := scontrol(t, text, "", "0")
		s.Squeue = s.Path
		_, err := s.Claims(t.Context())
		require.ErrorContains(t, err, "cannot read the answer of squeue", name)
	}
	s := scontrol(t, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)", "1")
	s.Squeue = s.Path
	_, err := s.Claims(t.Context())
	require.ErrorIs(t, err, ErrUnreachable)
	s = scontrol(t, "{}", "", "0")
	s.Squeue = scontrol(t, "", "", "0").Path
	_, err = s.Claims(t.Context())
	require.ErrorContains(t, err, "reservations")
}

// TestCompletingClaims: slurmctld counts on the records of all nodes that a job was started on until it has ended on the last.
func TestCompletingClaims(t *testing.T) {
	const details = "JobId=15 ArrayJobId=14 ArrayTaskId=1 JobName=x\n   NodeList=n-2\n     Nodes=n-1 CPU_IDs=0-1 Mem=10 GRES=\n" +
		"     Nodes=n-[2-3] CPU_IDs=0 Mem=10 GRES=\n   SubmitLine=Nodes=n-9 CPU_IDs=0\n\nJobId=16 JobName=Nodes=n-8\n   NodeList=(null)\n"
	s := says(t, map[string]string{
		"squeue":   `printf '14_1|15|||n-2|CG\n'`,
		"scontrol": `case "$*" in *reservation*) echo '{"reservations": []}';; *"show job 15") cat <<'E'` + "\n" + details + "E\n;; esac",
	})
	all, err := s.Claims(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []Claim{{Job: "14_1", ID: "15", Holds: "n-2", Given: "n-1,n-[2-3]", Completing: true}}, all)
	named, err := Named(all, []string{"n-1", "n-3", "n-8", "n-9"})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"n-1": "job 14_1 ends on other nodes", "n-3": "job 14_1 ends on other nodes"}, named)

	many := strings.Repeat("14_1|15|||n-2|CG\n", mostCompleting+1)
	s = says(t, map[string]string{
		"squeue":   "cat <<'E'\n" + many + "E\n",
		"scontrol": `case "$*" in *reservation*) echo '{"reservations": []}';; *"show job") cat <<'E'` + "\n" + details + "E\n;; esac",
	})
	all, err = s.Claims(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "n-1,n-[2-3]", all[mostCompleting].Given)

	for status, want := range map[string]string{
		"echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1": "",
		"echo 'something else' >&2; exit 1":                                  "something else",
	} {
		s = says(t, map[string]string{
			"squeue":   `printf '15|15|||n-2|CG\n'`,
			"scontrol": `case "$*" in *reservation*) echo '{"reservations": []}';; *) ` + status + ";; esac",
		})
		all, err = s.Claims(t.Context())
		if want == "" {
			require.NoError(t, err)
			assert.Empty(t, all[0].Given, "it has ended meanwhile")
			continue
		}
		require.ErrorContains(t, err, want, "nobody knows which nodes it counts on")
	}
}

func TestRenewClaim(t *testing.T) {
	for _, c := range []struct {
		claim Claim
		want  string
	}{
		{Claim{Reservation: "r", Nodes: "n[1-2]"}, "update reservationname=r nodes=n[1-2]\n"},
		{Claim{Job: "5", ID: "5", Nodes: "a,b", Excluded: "c"}, "update jobid=5 ReqNodeList=a,b ExcNodeList=c\n"},
		{Claim{Job: "5+1", ID: "6", Excluded: "c"}, "update jobid=6 ExcNodeList=c\n"},
		{Claim{Job: "7_[1-3%2]", ID: "7", Nodes: "a"}, "update jobid=7 ReqNodeList=a\n"},
	} {
		s := scontrol(t, "", "", "0")
		require.NoError(t, s.RenewClaim(t.Context(), &c.claim))
		assert.Equal(t, c.want, calls(t, s))
	}
	running := scontrol(t, "", "", "1")
	require.NoError(t, running.RenewClaim(t.Context(), &Claim{Job: "5", ID: "5", Nodes: "a", Holds: "a"}))
	require.Error(t, scontrol(t, "", "Invalid node name specified for job 5", "1").RenewClaim(t.Context(), &Claim{Job: "5", ID: "5", Nodes: "a"}))

	tasks, is := (&Claim{Job: "7_[1-3,9%2]"}).tasks()
	assert.True(t, is)
	assert.Equal(t, []string{"7_1", "7_2", "7_3", "7_9"}, tasks)
	tasks, is = (&Claim{Job: "7_4"}).tasks()
	assert.True(t, is)
	assert.Equal(t, []string{"7_4"}, tasks)
	for _, none := range []string{"7", "7+1", "7_[1-3...]", "7_[0-99999]"} {
		_, is := (&Claim{Job: none}).tasks()
		assert.False(t, is, none)
	}
}

func TestRenewNode(t *testing.T) {
	s := scontrol(t, "", "", "0")
	require.NoError(t, s.RenewNode(t.Context(), "n1", []string{"CPUs=2", "RealMemory=5"}, "slurmlet: why"))
	assert.Equal(t, "create NodeName=n1 CPUs=2 RealMemory=5 State=FUTURE\nupdate nodename=n1 state=drain reason=slurmlet: why\nupdate nodename=n1 state=down reason=slurmlet: why\n", calls(t, s))
}
