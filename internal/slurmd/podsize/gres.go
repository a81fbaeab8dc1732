package podsize

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm/gres"
	"github.com/slurmlet/slurmlet/internal/slurmd/devices"
)

// Gres is what slurmd registers besides CPUs and memory, and where it is.
type Gres struct {
	devices.Plan
	// Notes say what was found and does not count.
	Notes []string `json:"notes,omitempty"`
}

// FindGres looks at the devices, unless there shall be none.
func FindGres(root string, choice devices.Choice) (Gres, error) {
	found := devices.NewFS(root).Find()
	p, err := found.Plan(choice)
	if err != nil {
		return Gres{}, fmt.Errorf("SLURMLET_GRES: cannot use %q: %w", choice.Gres, err)
	}
	return Gres{p, append(found.Notes, look(root, len(found.GPUs) > 0).notes()...)}, nil
}

// Write writes its lines for gres.conf.
func (g Gres) Write(path string) error { return gres.WriteConf(path, g.Lines) }

// Check looks again before every start of slurmd, which would wait for a
// device that has vanished, and then end.
func (g Gres) Check(root string) error {
	if file := devices.NewFS(root).Missing(g.Files); file != "" {
		return fmt.Errorf("%s is no device any more, and %s was to be registered with it", file, g.Gres)
	}
	return nil
}

// checkGres: of what GresTypes does not list, slurmctld does not report that it was
// left out.
func (f *comparison) checkGres() {
	var missing []string
	for _, r := range f.Gres.Gres {
		if !f.cluster.Has("GresTypes", r.Name) && !slices.Contains(missing, r.Name) {
			missing = append(missing, r.Name)
		}
	}
	f.note(len(missing) > 0, "GresTypes",
		fmt.Sprintf("%s (slurm.conf), and \"Include %s\" in gres.conf", strings.Join(missing, ","), f.GresConf),
		fmt.Sprintf("the node is registered without %s", f.Gres.Gres))
}
