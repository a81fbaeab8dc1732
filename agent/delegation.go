package agent

import (
	"log/slog"
	"strings"

	"github.com/slurmlet/slurmlet/cgroup"
)

// delegation is what became of the attempt to hand Slurm a cgroup subtree.
type delegation struct {
	cgroup.Delegation
	Error string `json:"error,omitempty"`
}

func delegate(machine cgroup.FS, node string) delegation {
	d := delegation{}
	var err error
	if d.Delegation, err = machine.Delegate(node); err != nil {
		d.Error = err.Error()
	}
	return d
}

func (d delegation) level() slog.Level {
	if d.Error != "" {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

func (d delegation) String() string {
	if d.Error != "" {
		return "Slurm cannot limit jobs by cgroup: " + d.Error
	}
	return "Slurm has a cgroup subtree with the controllers " + strings.Join(d.Controllers, ", ")
}
