//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// holdable makes a pod stop at any point of its agent's life: its scontrol, sinfo and
// slurmd wait in front of the real ones as long as they are told to.
func holdable(spec sandbox.PodSpec) sandbox.PodSpec {
	script := func(text string) sandbox.File {
		return sandbox.File{Data: []byte(strings.ReplaceAll(text, "NODE", spec.Name)), Mode: 0o755}
	}
	spec.Env["SLURMLET_MERGE"] = "off" // slurmctld's agent would run scontrol elsewhere
	spec.Env["PATH"] = "/usr/local/held:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	spec.Volumes = append(spec.Volumes, sandbox.Volume{
		Name: "held", Path: "/usr/local/held", Files: map[string]sandbox.File{"scontrol": script(heldCommand), "sinfo": script(heldCommand), "slurmd": script(heldSlurmd)},
	})
	return spec
}

// What is held is in a file: "before --all*" for sinfo, "after delete*".
const heldCommand = `#!/bin/sh
args="$*"
hold() {
	while pattern=$(cat /shared/hold-NODE 2>/dev/null) && [ -n "$pattern" ]; do
		case "$1 $args" in
		$pattern) touch /shared/held-NODE; sleep 0.1 ;;
		*) return ;;
		esac
	done
}
hold before
"/usr/bin/${0##*/}" "$@"
status=$?
hold after
exit $status
`

const heldSlurmd = `#!/bin/sh
while [ -e /shared/hold-slurmd-NODE ]; do sleep 0.1; done
exec /usr/sbin/slurmd "$@"
`

// hold stops the next scontrol in a pod that does this.
func (c *cluster) hold(t *testing.T, node, pattern string) {
	t.Helper()
	c.run(t, "login", "sh", "-c", `cd /shared; rm -f held-$1; printf %s "$2" > .hold-$1; mv .hold-$1 hold-$1`, "sh", node, pattern)
}

func (c *cluster) holdSlurmd(t *testing.T, node string) {
	t.Helper()
	c.run(t, "login", "touch", "/shared/hold-slurmd-"+node)
}

// waitHeld waits until it has been stopped.
func (c *cluster) waitHeld(t *testing.T, node string) {
	t.Helper()
	until(t, "scontrol is held in "+node, func() (bool, string) {
		_, _, code, err := c.Exec(t.Context(), "login", "test", "-e", "/shared/held-"+node)
		require.NoError(t, err)
		said, _, _, _ := c.Exec(t.Context(), node, "slurmlet", "status")
		return code == 0, said
	})
}

// letGo has all go on that is held, also in the pods that come next.
func (c *cluster) letGo(t *testing.T) {
	t.Helper()
	_, _, _, err := c.Exec(t.Context(), "login", "sh", "-c", "rm -f /shared/hold-* /shared/held-*")
	require.NoError(t, err)
}
