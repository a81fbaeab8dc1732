package slurm

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answers are what commands print, by their words.
type answers map[string]string

func (a answers) Ask(_ context.Context, command ...string) (string, error) {
	words := strings.Join(command, " ")
	for begins, text := range a {
		if strings.HasPrefix(words, begins) {
			return text, nil
		}
	}
	return "", &Refusal{Command: command, Status: 1, Said: "no answer"}
}

// TestGroups: rows of sinfo 26.05.5. A reason may have several lines and the mark between columns.
func TestGroups(t *testing.T) {
	groups, err := Groups(t.Context(), answers{"sinfo --local --noheader --exact --format=#|": `#|all|draining|2|704|12052|(null)|(null)|1/0/1/2|1|node-1|root|2026-11-28T06:55:27|disk | broken
second line
#|all|idle~|1|448|1024|gpu:h200:2|elastic,x|0/3/0/3|3|elastic-[0-2]|Unknown|Unknown|none
#|empty|n/a|0|0|0|(null)|(null)|0/0/0/0|0||Unknown|Unknown|none
`}, "all")
	require.NoError(t, err)
	assert.Equal(t, []Group{
		{Partition: "all", State: "draining", CPUs: 2, Memory: 704, Disk: 12052, Count: 1, Nodes: "node-1", User: "root", Since: "2026-11-28T06:55:27", Reason: "disk | broken second line"},
		{Partition: "all", State: "idle", Mark: "~", CPUs: 1, Memory: 448, Disk: 1024, Gres: "gpu:h200:2", Features: "elastic,x", Idle: 3, Count: 3, Nodes: "elastic-[0-2]"},
	}, groups)
	assert.True(t, groups[0].Closed())
	assert.False(t, groups[1].Closed())
	assert.Equal(t, []string{"elastic-0", "elastic-1", "elastic-2"}, groups[1].Names())
}

// TestParseLimits: lines of scontrol show assoc_mgr of 24.11.5 with a limit of each kind.
func TestParseLimits(t *testing.T) {
	j := &Job{User: "alice", UserID: 1000, Account: "optics", Partition: "all", QOS: "normal"}
	assert.Equal(t, []Limit{
		{Entity: "qos", Name: "normal", Key: "GrpTRES", TRES: "cpu", Most: 4, Used: 4},
		{Entity: "qos", Name: "normal", Key: "MaxWallPJ", Most: 60, Used: -1},
		{Entity: "qos", Name: "normal", Key: "MaxJobsPU", Most: 1, Used: 1},
	}, parseLimits(`QOS Records

QOS=normal(1)
    UsageRaw=0.000000
    GrpJobs=N(0) GrpJobsAccrue=N(0) GrpSubmitJobs=N(0) GrpWall=N(0.00)
    GrpTRES=cpu=4(4),mem=N(0)
    MaxWallPJ=60
    MaxTRESPJ=
    Account Limits
        No Accounts
    User Limits
      999
        MaxJobsPU=1(7) MaxJobsAccruePU=N(0)
      1000
        MaxJobsPU=1(1) MaxJobsAccruePU=N(0)
`, j))
	const tree = `Association Records

ClusterName=c Account=optics UserName= Partition= Priority=0 ID=3
    ParentAccount=physics(2) Lft-Rgt=3-6 DefAssoc=No
    GrpJobs=N(0) GrpWall=60(1.50)
    MaxJobs= MaxTRESPJ=cpu=8
ClusterName=c Account=optics UserName=alice(1000) Partition= Priority=0 ID=4
    ParentAccount= Lft-Rgt=4-5 DefAssoc=Yes
    MaxJobs=1(1) MaxWallPJ=
ClusterName=c Account=optics UserName=bob(1001) Partition= Priority=0 ID=5
    MaxJobs=3(3) MaxWallPJ=
ClusterName=c Account=optics UserName=alice(1000) Partition=other Priority=0 ID=6
    MaxJobs=7(0) MaxWallPJ=
`
	limits := parseLimits(tree, j)
	assert.Equal(t, []Limit{
		{Entity: "account", Name: "optics", Cluster: "c", Key: "GrpWall", Most: 60, Used: 1},
		{Entity: "account", Name: "optics", Cluster: "c", Key: "MaxTRESPJ", TRES: "cpu", Most: 8, Used: -1},
		{Entity: "user", Name: "alice", Account: "optics", Cluster: "c", Key: "MaxJobs", Most: 1, Used: 1},
	}, limits)
	assert.Equal(t, "physics", parentOf(tree, "optics"))
	assert.Equal(t, "MaxTRESPerJob=cpu", limits[1].What())
	assert.Equal(t, []string{"user", "where", "name=alice", "account=optics", "cluster=c"}, limits[2].Where())
}

func TestIsJobID(t *testing.T) {
	for word, want := range map[string]bool{"5": true, "5_2": true, "5+1": true, "": false, "5_": false, "-5": false, "n5": false, "5_[1-2]": false, "5 6": false} {
		assert.Equal(t, want, IsJobID(word), word)
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]Number{
		`{"set":true,"infinite":false,"number":5}`: {Set: true, Number: 5}, `{"set":false,"infinite":true,"number":0}`: {Infinite: true}, `7`: {Set: true, Number: 7}, `{"set":true,"number":2.5}`: {Set: true, Number: 2},
	} {
		var n Number
		require.NoError(t, json.Unmarshal([]byte(text), &n))
		assert.Equal(t, want, n, text)
	}
}

func TestLabel(t *testing.T) {
	for want, j := range map[string]Job{
		"5": {ID: 5}, "5_2": {ID: 7, ArrayID: number(5), TaskID: number(2)}, "5_[3-9]": {ID: 5, ArrayID: number(5), Tasks: "3-9"}, "6+1": {ID: 7, HetID: number(6), HetOffset: number(1)},
	} {
		assert.Equal(t, want, j.Label())
	}
	assert.Equal(t, "5", (&Job{ID: 5, ArrayID: number(5), Tasks: "3-9"}).Whole())
}

func number(n int64) Number { return Number{Set: true, Number: n} }

func TestOutputFile(t *testing.T) {
	j := Job{ID: 7, ArrayID: Number{Set: true, Number: 5}, TaskID: Number{Set: true, Number: 2}, Name: "n", User: "alice", BatchHost: "node-0", Dir: "/home/alice"}
	for output, want := range map[string]string{"slurm-%A_%a.out": "/home/alice/slurm-5_2.out", "/x/%j-%u-%%.out": "/x/7-alice-%.out", "": ""} {
		j.Output = output
		assert.Equal(t, want, j.OutputFile())
	}
	j.Expanded = "/expanded"
	assert.Equal(t, "/expanded", j.OutputFile())
}
