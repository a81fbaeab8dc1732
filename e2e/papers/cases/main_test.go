package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/e2e/papers"
)

func TestCommands(t *testing.T) {
	assert.Equal(t, []command{
		{packages: []string{"./e2e/native/hang", "./e2e/native/ends"}, tags: []string{"-tags", "e2e"}},
		{packages: []string{"./e2e"}, tags: []string{"-tags", "e2e"}, skip: "TestLimits|TestUp"},
		{packages: []string{"./e2e/kube"}, run: "TestKube/(a|b)"},
	}, commands(`mkdir -p bin
/go/bin/go test -tags e2e -p 1 ./e2e/native/hang ./e2e/native/ends >log 2>&1 & small=$!; /go/bin/go test -tags e2e -skip 'TestLimits|TestUp' ./e2e; code=$?
SLURM=24.11 go test -v ./e2e/kube \
	-run 'TestKube/(a|b)'
go vet ./...
`))
}

func TestRows(t *testing.T) {
	tests := map[string][]papers.Case{
		"TestSlurm":  {{Name: "a_pod", On: "either"}, {Name: "the_agent_killed:_", Open: true}, {Name: "a_pod", On: "either"}},
		"TestLimits": {{Name: "GPUs", On: "only2411"}, {Name: "a_pod", On: "both", Full: true}},
		"TestChaos":  nil,
	}
	for _, c := range []struct {
		command command
		want    []string
	}{
		{command{}, []string{"TestChaos", "TestLimits\tGPUs\t24.11", "TestLimits\ta_pod\tfull", "TestSlurm\ta_pod\teither", "TestSlurm\tthe_agent_killed:_…"}},
		{command{skip: "TestLimits|TestUp"}, []string{"TestChaos", "TestSlurm\ta_pod\teither", "TestSlurm\tthe_agent_killed:_…"}},
		{command{run: "TestLimits|TestUp"}, []string{"TestLimits\tGPUs\t24.11", "TestLimits\ta_pod\tfull"}},
		{command{run: "Test(Limits|Slurm)/.*/(a_p.d|b)"}, []string{"TestLimits\ta_pod\tfull", "TestSlurm\ta_pod\teither"}},
	} {
		assert.Equal(t, c.want, c.command.rows(tests), "%+v", c.command)
	}
}
