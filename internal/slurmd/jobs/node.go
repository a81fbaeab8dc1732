// Package jobs has what slurmd's pod does with jobs of its node: which of them hold the node, what ends them on the way
// down, and what becomes of those that have died with an earlier container or that slurmctld has forgotten.
package jobs

import (
	"log/slog"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/spool"
)

// Node is the node whose jobs are meant.
type Node struct {
	Name  string
	Slurm *slurm.Questions
	Spool *spool.Dir
	Log   func(level slog.Level, text string, attrs ...slog.Attr)
}
