//go:build e2e

package elastic

import (
	"fmt"
	"strings"
)

// manual is what an administrator would write without slurmlet. The programs do nothing, because the maker of pods
// looks at the records.
const manual = `SlurmctldParameters=enable_configless,power_save_interval=0
ResumeProgram=/bin/true
SuspendProgram=/bin/true
ResumeTimeout=120
SuspendTimeout=15
ResumeRate=0
SuspendRate=0
SuspendTime=900000000
NodeSet=elastic Feature=elastic
PartitionName=elastic Nodes=elastic SuspendTime=3
`

var slurmSteps = []step{
	{"records of nodes without pods", (*world).createByHand},
	{"a job from zero, and back to zero", (*world).upAndDownByHand},
}

func (w *world) createByHand() error {
	if _, err := w.slurm("scontrol", "create", "NodeName=e-[0-3]", "CPUs=1", "RealMemory=300", "TmpDisk=1024", "Features=elastic", "State=CLOUD"); err != nil {
		return err
	}
	nodes, err := w.nodes()
	if err != nil {
		return err
	}
	if len(nodes) != 4 || len(w.maker.UIDs()) != 0 {
		return fmt.Errorf("there are records %v and pods %v", nodes, w.maker.UIDs())
	}
	return w.untilNodes("a new record is not idle~", off, "e-0", "e-1", "e-2", "e-3")
}

func (w *world) upAndDownByHand() error {
	id, err := w.batch("-p", "elastic", "-N2")
	if err != nil {
		return err
	}
	if err := w.untilJob(id, "RUNNING"); err != nil {
		return err
	}
	if err := w.untilPods("e-0", "e-1"); err != nil {
		return err
	}
	if out, err := w.slurm("srun", "--overlap", "--jobid="+id, "hostname"); err != nil || !strings.Contains(out, "e-1") {
		return fmt.Errorf("a step prints %q: %w", out, err)
	}
	if _, err := w.slurm("scancel", id); err != nil {
		return err
	}
	if err := w.untilPods(); err != nil {
		return err
	}
	return w.untilNodes("a node does not wait for a job", off, "e-0", "e-1", "e-2", "e-3")
}
