package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/devices"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// gres is what slurmd registers besides CPUs and memory, and where it is.
type gres struct {
	devices.Plan
	// Notes tell what was found and does not count.
	Notes []string `json:"notes,omitempty"`
}

// findGres looks at the devices, unless there shall be none.
func findGres(root string, c Config) (gres, error) {
	found := devices.NewFS(root).GPUs()
	p, err := found.Plan(c.Gres)
	if err != nil {
		return gres{}, fmt.Errorf("SLURMLET_GRES: cannot use %q: %w", c.Gres.Gres, err)
	}
	return gres{p, found.Notes}, nil
}

// gresConf is the file that the cluster's gres.conf includes.
func gresConf(c Config) string { return filepath.Join(c.RunDir, "gres.conf") }

// write makes the file, without a line where there is no device: a daemon that
// misses an included file waits for it for a minute.
func (g gres) write(c Config) error {
	lines := append([]string{"# slurmlet writes this at its start: the devices of this container (gres.conf(5))."}, g.Lines...)
	text := strings.Join(lines, "\n") + "\n"
	path := gresConf(c)
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

// check looks again before every start of slurmd, which would wait for a
// device that has vanished, and then end.
func (g gres) check(root string) error {
	if file := devices.NewFS(root).Missing(g.Files); file != "" {
		return fmt.Errorf("%s is no device any more, and %s was to be registered with it", file, g.Gres)
	}
	return nil
}

// knownGres asks what slurmctld knows of at all when its record has not what
// was registered: of other names it tells nobody.
func (a *Agent) knownGres(ctx context.Context, n *slurm.Node) error {
	if !a.gres.Gres.Differs(devices.Recorded(n.Gres), nil) {
		return nil
	}
	cluster, err := a.client.Config(ctx)
	if err != nil {
		return err
	}
	n.GresTypes = strings.Split(cluster["GresTypes"], ",")
	return nil
}

// recordedGres is what a record has in the place of what was registered: the
// same, where only what Slurm adds to it is different.
func recordedGres(registered string, n *slurm.Node) string {
	if devices.Recorded(registered).Differs(devices.Recorded(n.Gres), n.GresTypes) {
		return n.Gres
	}
	return registered
}

// gres: of what GresTypes does not list, slurmctld tells nobody that it was
// left out.
func (f *fitting) gres(path string) {
	var missing []string
	for _, r := range f.Gres.Gres {
		if !f.cluster.Has("GresTypes", r.Name) && !slices.Contains(missing, r.Name) {
			missing = append(missing, r.Name)
		}
	}
	f.note(len(missing) > 0, "GresTypes", fmt.Sprintf("%s (slurm.conf), and \"Include %s\" in gres.conf", strings.Join(missing, ","), path),
		fmt.Sprintf("the node is registered without %s", f.Gres.Gres))
}

// refusedGres says whether slurmctld has refused a node because slurmd found
// fewer devices than it was to register: gres.conf did not tell it where.
func refusedGres(n *slurm.Node) bool { return n.Invalid() && strings.HasPrefix(n.Reason, "gres/") }

// putRight says whether such a refusal is over, and its drain has stayed.
func putRight(n *slurm.Node) bool {
	return n.Drained() && !n.Invalid() && strings.HasPrefix(n.Reason, "gres/")
}

func (g gres) rows(row func(name, format string, args ...any)) {
	for _, line := range g.Lines {
		row("Device", "%s", line)
	}
	for _, note := range g.Notes {
		row("Note", "%s", note)
	}
}
