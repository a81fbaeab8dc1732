//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/sandbox"
)

// tryOut starts a slurmctld on each configuration below /tmp/check, with a state,
// a port and a PID file that nothing else has and without the socket that the
// cluster's slurmctld listens on, and waits for what becomes of it: a thread may end
// it while another one says that it runs.
const tryOut = `
for dir in /tmp/check/*/*; do
	cd $dir && mkdir state && cp /etc/slurm/slurm.key .
	sed -i s/^SlurmctldHost=ctl/SlurmctldHost=$(hostname)/ slurm.conf
	printf 'AuthInfo=disable_sack\nSlurmUser=root\nSlurmctldPort=17817\nStateSaveLocation=%s/state\nSlurmctldPidFile=%s/pid\nSlurmdSpoolDir=%s/spool\n' $dir $dir $dir >> slurm.conf
	slurmctld -D -i -f $dir/slurm.conf > log 2>&1 &
	pid=$! becomes= waited=0
	while [ -z "$becomes" ] && [ $((waited += 1)) -lt 300 ]; do
		sleep 0.1
		if grep -q fatal: log || ! kill -0 $pid 2> /dev/null; then becomes=ended
		elif grep -q 'Running as primary controller' log; then becomes=runs; kill -9 $pid; fi
	done
	wait $pid
	echo ${becomes:-hangs} ${dir#/tmp/check/} $(grep -m1 fatal: log)
done 2> /dev/null`

// whatCheckRefuses: slurmctld ends over every configuration of slurmconf/check's
// tests that has an Error, and runs on with the others.
func whatCheckRefuses(t *testing.T, c *cluster) {
	unpack := sandbox.Streams{Stdin: packed(t, "../slurmconf/check/testdata")}
	code, err := c.Attach(t.Context(), sandbox.Controller, sandbox.How{}, unpack, "sh", "-c", "mkdir /tmp/check && tar x -C /tmp/check")
	require.NoError(t, err)
	require.Zero(t, code)
	stdout, stderr, _, err := c.Exec(t.Context(), sandbox.Controller, "sh", "-c", tryOut)
	require.NoError(t, err)
	cases := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Greater(t, len(cases), 50, stdout+stderr)
	for _, line := range cases {
		if name := strings.Fields(line)[1]; strings.HasPrefix(name, "refused/") {
			assert.Regexp(t, "^ended .* fatal:", line)
		} else {
			assert.Equal(t, "runs "+name, line)
		}
	}
	c.run(t, sandbox.Controller, "rm", "-r", "/tmp/check")
}

// packed is a tar archive of a directory.
func packed(t *testing.T, dir string) *bytes.Buffer {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	require.NoError(t, w.AddFS(os.DirFS(filepath.Clean(dir))))
	require.NoError(t, w.Close())
	return &archive
}
