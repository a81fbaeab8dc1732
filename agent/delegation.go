package agent

import (
	"log/slog"
	"strings"

	"github.com/slurmlet/slurmlet/cgroup"
)

// delegation is what became of the attempt to hand Slurm a cgroup subtree.
type delegation struct {
	Controllers []string `json:"controllers,omitempty"`
	Error       string   `json:"error,omitempty"`
}

func delegate(machine cgroup.FS, node string) delegation {
	controllers, err := machine.Delegate(node)
	d := delegation{Controllers: controllers}
	if err != nil {
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
