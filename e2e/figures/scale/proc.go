package main

import (
	"fmt"

	"github.com/prometheus/procfs"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// threads are those of a node: ten of its agent and twelve of slurmd.
const threads = 22

// room says what keeps so many nodes from running on this machine. The limits are the machine's,
// and not ours to raise.
func room(nodes int) error {
	most, err := setting("kernel.pid_max")
	if err != nil {
		return err
	}
	if want := nodes*threads + 1000; want > most {
		return fmt.Errorf("cannot run %d nodes: kernel.pid_max is %d, and they have %d threads", nodes, most, want)
	}
	instances, err := setting("fs.inotify.max_user_instances")
	if err == nil && instances < nodes {
		native.Progress("fs.inotify.max_user_instances is %d: the agents of further nodes look at their files once a minute", instances)
	}
	return err
}

func setting(name string) (int, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf("cannot read a limit of the machine: %w", err)
	}
	values, err := fs.SysctlInts(name)
	if err != nil || len(values) == 0 {
		return 0, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return values[0], nil
}

// memory is what all processes of the namespace have, shared pages in equal
// parts (proc_pid_smaps(5), Pss).
func memory() (int64, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return 0, fmt.Errorf("cannot find processes: %w", err)
	}
	var sum int64
	for _, p := range all {
		rollup, _ := p.ProcSMapsRollup() // it may have ended
		sum += int64(rollup.Pss)
	}
	return sum, nil
}
