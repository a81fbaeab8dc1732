//go:build e2e

package edits

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// slurmConf: without enable_configless, nothing is pushed.
const slurmConf = `SlurmctldParameters=enable_configless
MaxNodeCount=1024
`

const (
	// volume is a ConfigMap's, in the cluster's root.
	volume = "/run/volume"
	// mute is a file beside which scontrol tells nothing of nodes.
	mute = "/run/mute"
	// limit is for what many daemons do on a machine that has other work.
	limit = 5 * time.Minute
)

// edits is a cluster of which every daemon has its agent.
type edits struct {
	*native.Cluster
	settings settings
	volume   *native.Volume
	files    map[string][]byte
	lock     sync.Mutex
	log      []string
}

// begin has slurmctld and all nodes Ready.
func begin(s settings, preflight string) (*edits, error) {
	c, err := native.NewCluster(native.Options{Lower: s.Root, Slurmlet: s.Slurmlet, Nodes: s.Nodes, SlurmConf: slurmConf})
	if err != nil {
		return nil, err
	}
	e := &edits{Cluster: c, settings: s}
	if err := e.muffle(); err != nil {
		return nil, err
	}
	if e.files, err = c.Sources(); err != nil {
		return nil, err
	}
	if e.volume, err = c.NewVolume(volume, e.files); err != nil {
		return nil, err
	}
	if err := c.ControlBySlurmlet(volume, e.hear, "SLURMLET_PREFLIGHT="+preflight); err != nil {
		return nil, err
	}
	for _, n := range c.Nodes {
		if err := c.Start(n); err != nil {
			return nil, err
		}
	}
	for _, n := range c.Nodes {
		if err := n.AwaitReady(limit); err != nil {
			return nil, err
		}
	}
	return e, e.until("slurmctld's agent is at rest", func(s *agent.Status) bool { return s.State == supervisor.Ready && s.Conf.Doing == "" })
}

// muffle puts a scontrol in the place of Slurm's that tells nothing of all nodes as
// long as it shall not, in the words of a slurmctld that is too busy.
func (e *edits) muffle() error {
	path := filepath.Join(e.Root, "usr/bin/scontrol")
	script := `#!/bin/sh
if [ -e ` + mute + ` ] && [ "$1 $2" = "show nodes" ]; then
	echo "slurm_load_node error: Unable to contact slurm controller (connect failure)" >&2
	exit 1
fi
exec /usr/bin/scontrol.slurm "$@"
`
	if err := os.Rename(path, path+".slurm"); err != nil {
		return fmt.Errorf("cannot put another scontrol in place: %w", err)
	}
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		return fmt.Errorf("cannot put another scontrol in place: %w", err)
	}
	return nil
}

func (e *edits) hear(line string) {
	e.lock.Lock()
	defer e.lock.Unlock()
	e.log = append(e.log, line)
}

func (e *edits) said() []string {
	e.lock.Lock()
	defer e.lock.Unlock()
	return slices.Clone(e.log)
}

// edit adds a line to slurm.conf.
func (e *edits) edit(line string) error {
	files := maps.Clone(e.files)
	files["slurm.conf"] = append(slices.Clip(files["slurm.conf"]), line+"\n"...)
	_, err := e.volume.Swap(files)
	return err
}

func (e *edits) until(what string, is func(*agent.Status) bool) error {
	return e.UntilAgent(limit, what, is)
}

// mains are the main processes that an agent has been Ready with.
func mains(log []string) (pids []int) {
	for _, line := range log {
		var said struct {
			State supervisor.Phase
			Main  int
		}
		if !strings.Contains(line, `"msg":"state"`) || json.Unmarshal([]byte(line), &said) != nil {
			continue
		}
		if said.State == supervisor.Ready && !slices.Contains(pids, said.Main) {
			pids = append(pids, said.Main)
		}
	}
	return pids
}

func (e *edits) explain() {
	tell := func(who string, log []string) {
		for _, line := range log[max(0, len(log)-60):] {
			fmt.Println(who+":", line)
		}
	}
	tell("slurmctld", e.said())
	tell(e.Nodes[0].Name, e.Nodes[0].Log())
}
