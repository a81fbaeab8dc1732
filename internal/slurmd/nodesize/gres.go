package nodesize

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm"
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

// Write makes the file that the cluster's gres.conf includes, without a line where there is no device: a daemon that
// misses an included file waits for it for a minute.
func (g Gres) Write(path string) error {
	lines := append([]string{"# slurmlet writes this at its start: the devices of this container (gres.conf(5))."}, g.Lines...)
	text := strings.Join(lines, "\n") + "\n"
	// Never seen half-written: slurmd reads it whenever it is reconfigured.
	err := os.WriteFile(path+".new", []byte(text), 0o644)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("cannot write gres.conf: %w", err)
	}
	return nil
}

// Check looks again before every start of slurmd, which would wait for a
// device that has vanished, and then end.
func (g Gres) Check(root string) error {
	if file := devices.NewFS(root).Missing(g.Files); file != "" {
		return fmt.Errorf("%s is no device any more, and %s was to be registered with it", file, g.Gres)
	}
	return nil
}

// recordedGres is what a record has in the place of what was registered: the
// same, where only what Slurm adds to it is different.
func recordedGres(registered string, n *slurm.Node) string {
	if devices.Recorded(registered).Differs(devices.Recorded(n.Gres), n.Detail().GresTypes) {
		return n.Gres
	}
	return registered
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
