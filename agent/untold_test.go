package agent

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

func TestUntold(t *testing.T) {
	batch, allocation := slurm.Job{ID: 5, Batch: true}, slurm.Job{ID: 5}
	for name, c := range map[string]struct {
		job    slurm.Job
		steps  []string
		tasks  bool // the slurmstepds have some
		untold bool
	}{
		"the script has ended":                         {job: batch, steps: []string{"5" + batchStep}, untold: true},
		"the script runs":                              {job: batch, steps: []string{"5" + batchStep}, tasks: true},
		"the script has ended, and left a step behind": {job: batch, steps: []string{"5" + batchStep, "5.0"}, untold: true},
		"the script may run elsewhere":                 {job: batch, steps: []string{"5.0"}},
		"the last step has ended":                      {job: allocation, steps: []string{"5.0", "5.1", "5" + externStep}, untold: true},
		"a step runs":                                  {job: allocation, steps: []string{"5.0"}, tasks: true},
		"an allocation without a step":                 {job: allocation, steps: []string{"5" + externStep}},
		"steps of another job":                         {job: allocation, steps: []string{"55.0"}},
		"nobody listens":                               {job: batch, steps: []string{unknownStep}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Agent{Options: Options{Root: t.TempDir(), Config: Config{NodeName: "n", SpoolDir: "/"}}}
			for _, step := range c.steps {
				if step != unknownStep {
					listener, err := net.Listen("unix", filepath.Join(a.Root, "n_"+step))
					require.NoError(t, err)
					defer listener.Close()
				}
			}
			busy := func() map[int]bool { return map[int]bool{1: true, os.Getpid(): c.tasks} }
			assert.Equal(t, c.untold, a.isUntold(&c.job, c.steps, busy))
		})
	}
}
