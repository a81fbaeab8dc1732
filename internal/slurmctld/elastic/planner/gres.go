package planner

import (
	"fmt"

	"github.com/slurmlet/slurmlet/internal/slurm/gres"
)

// GresLines are the lines of gres.conf that slurmctld needs before it takes records with generic resources:
// one with files for each type of GPU. The files need not exist beside slurmctld, and no slurmd gets these lines.
func (sets Sets) GresLines() (lines []string) {
	for _, s := range sets.All {
		next := map[string]uint64{} // by name: the number of the next file
		for _, r := range gres.Recorded(s.Size.Gres) {
			line := fmt.Sprintf("NodeName=%s Name=%s", s.NodeNames, r.Name)
			if r.Type != "" {
				line += " Type=" + r.Type
			}
			if r.Name == "gpu" {
				first := next[r.Name]
				next[r.Name] += r.Count
				line += fmt.Sprintf(" File=/dev/nvidia[%d-%d]", first, next[r.Name]-1)
			} else {
				line += fmt.Sprintf(" Count=%d", r.Count)
			}
			lines = append(lines, line)
		}
	}
	return lines
}
