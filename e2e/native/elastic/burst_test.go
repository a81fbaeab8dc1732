//go:build e2e

package elastic

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestBurst has many jobs begin to wait for a node at once.
func TestBurst(t *testing.T) { inFull(t, "burst") }

const burstConf = `SlurmctldParameters=enable_configless
NodeSet=m Feature=m
PartitionName=m Nodes=m
`

// burstSets is a set of one node, which has a CPU for each job.
func burstSets(features string) map[string]string {
	return map[string]string{"m": `{"nodes":"m-0","cpuLimit":"64","memoryLimit":"4Gi","features":[` + features + `]}`}
}

var burstSteps = []step{{"an edit while 60 jobs begin to wait", (*world).editInBurst}}

// editInBurst: slurmctld 24.11.5 hangs where it reconfigures within a second after 60 PrologSlurmctld have begun.
func (w *world) editInBurst() error {
	before, err := w.AgentStatus()
	if err != nil {
		return err
	}
	w.pods.hold("m-0")
	id, err := w.slurm("sbatch", "--parsable", "-p", "m", "--mem=10", "--array=1-60", "--output=/dev/null", "--chdir=/", "--wrap=true")
	if err != nil {
		return err
	}
	if err := w.until("no job waits for its node", func() bool {
		out, err := w.slurm("squeue", "--noheader", "--states=CONFIGURING")
		return err == nil && out != ""
	}); err != nil {
		return err
	}
	began := time.Now()
	if err := w.edit(burstSets(`"m","more"`)); err != nil {
		return err
	}
	err = w.until("the edit is not live", func() bool {
		now, err := w.AgentStatus()
		return err == nil && now.Conf.Live != before.Conf.Live
	})
	if err != nil {
		return err
	}
	fmt.Printf("%s, Slurm %s: an edit was live after %.2f s\n", w.settings.Story, w.settings.Version, time.Since(began).Seconds())
	out, err := w.slurm("squeue", "--noheader", "--array", "--jobs="+id, "--format=%T")
	if n := strings.Count(out, "\n") + 1; err == nil && n != 60 {
		err = fmt.Errorf("there are %d of 60 jobs: %s", n, out)
	}
	if err != nil {
		return err
	}
	_, err = w.slurm("scancel", id)
	return err
}
