package jobs

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/spool"
)

func TestUnreported(t *testing.T) {
	batch, allocation := slurm.Job{ID: 5, Batch: true}, slurm.Job{ID: 5}
	for name, c := range map[string]struct {
		job        slurm.Job
		steps      []string
		tasks      bool // the slurmstepds have some
		unreported bool
	}{
		"the script has ended":                         {job: batch, steps: []string{"5" + spool.Batch}, unreported: true},
		"the script runs":                              {job: batch, steps: []string{"5" + spool.Batch}, tasks: true},
		"the script has ended, and left a step behind": {job: batch, steps: []string{"5" + spool.Batch, "5.0"}, unreported: true},
		"the script may run elsewhere":                 {job: batch, steps: []string{"5.0"}},
		"the last step has ended":                      {job: allocation, steps: []string{"5.0", "5.1", "5" + spool.Extern}, unreported: true},
		"a step runs":                                  {job: allocation, steps: []string{"5.0"}, tasks: true},
		"an allocation without a step":                 {job: allocation, steps: []string{"5" + spool.Extern}},
		"steps of another job":                         {job: allocation, steps: []string{"55.0"}},
		"nobody listens":                               {job: batch, steps: []string{spool.Unknown}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, nil)
			for _, step := range c.steps {
				if step != spool.Unknown {
					listener, err := net.Listen("unix", n.Spool.Socket(step))
					require.NoError(t, err)
					defer listener.Close()
				}
			}
			busy := func() map[int]bool { return map[int]bool{1: true, os.Getpid(): c.tasks} }
			assert.Equal(t, c.unreported, n.isUnreported(&c.job, c.steps, busy))
		})
	}
}
