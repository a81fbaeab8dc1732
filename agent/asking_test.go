package agent

import (
	"log/slog"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// asking asks a slurmctld, and logs nothing.
func asking(c slurm.Client) *slurm.Questions {
	return &slurm.Questions{Client: c, Least: lifecycle.QuestionLimit, Log: func(slog.Level, string, ...slog.Attr) {}}
}
