package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// contender is one way to start the stand-in daemon.
type contender struct {
	name string
	argv []string
	env  []string
	// every: it takes part in every such round only, being slow.
	every int
	// ready is a text of its output that says it is at rest; "": it is when the
	// daemon has begun.
	ready string
}

// The first contender is no init at all: what the others cost on top is of interest.
const direct = "direct exec"

// contenders also lays out the files that they need below dir.
func contenders(dir string, s settings) ([]contender, error) {
	conf := filepath.Join(dir, "supervisord.conf")
	slurm := filepath.Join(dir, "slurm")
	if err := os.Mkdir(slurm, 0o755); err != nil {
		return nil, fmt.Errorf("cannot lay out the contenders' files: %w", err)
	}
	files := map[string]string{
		filepath.Join(slurm, "slurm.conf"): "ClusterName=bench\nSlurmctldHost=" + native.Host + "\nPartitionName=all Nodes=ALL\n",
		filepath.Join(slurm, "slurm.key"):  "not a real one",
		conf:                               fmt.Sprintf(supervisordConf, dir, s.Daemon),
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("cannot lay out the contenders' files: %w", err)
		}
	}
	for _, tool := range []string{"scontrol", "sdiag", "squeue"} { // the agent's
		if err := os.Symlink(s.Daemon, filepath.Join(dir, tool)); err != nil {
			return nil, fmt.Errorf("cannot lay out the contenders' files: %w", err)
		}
	}
	return located([]contender{
		{name: direct, argv: []string{s.Daemon}, every: 1},
		{name: "slurmlet", argv: []string{s.Slurmlet, "slurmctld"}, every: 1, ready: `"state":"Ready"`, env: []string{
			"SLURMLET_DAEMON=" + s.Daemon, "SLURMLET_CONF_DIR=" + slurm, "SLURMLET_STATE_DIR=" + filepath.Join(dir, "state"), "SLURMLET_RUN_DIR=" + filepath.Join(dir, "run"),
			"SLURMLET_LISTEN=127.0.0.1:0", "SLURMLET_SLURM_USER=root", "PATH=" + dir,
		}},
		{name: "tini", argv: []string{"tini", "-s", "--", s.Daemon}, every: 1},
		{name: "supervisord", argv: []string{"supervisord", "-n", "-c", conf}, every: todo.supervised},
	})
}

const supervisordConf = `[supervisord]
logfile=/dev/null
logfile_maxbytes=0
pidfile=%[1]s/supervisord.pid
user=root
[program:daemon]
command=%[2]s
startsecs=0
autorestart=false
`

// located makes the programs' paths absolute.
func located(all []contender) ([]contender, error) {
	for _, c := range all {
		path, err := exec.LookPath(c.argv[0])
		if err != nil {
			return nil, fmt.Errorf("cannot find a contender: %w", err)
		}
		c.argv[0] = path
	}
	return all, nil
}
