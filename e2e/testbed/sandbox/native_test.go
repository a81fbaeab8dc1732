package sandbox

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A guest is a host with pure cgroup v2, so a native sandbox fits in it.
const nativeScript = `set -e
export LIBMOUNT_FORCE_MOUNT2=always SLURMLET_SANDBOX_PARTS=/mnt/parts
mkdir -p /mnt/bin /mnt/parts/root-%[1]s
mount -t hostfs -o %[2]s none /mnt/bin
mount -t hostfs -o %[3]s none /mnt/parts/root-%[1]s
sandbox() { c=$1; shift; /mnt/bin/%[4]s $c -name native "$@"; }
sandbox up -empty -slurm %[1]s >&2
echo '{"name":"a","cpu":1.5,"args":["sleep","1000"]}' | sandbox create >&2
sandbox exec a sh -c 'cat /proc/self/cgroup /sys/fs/cgroup/cpu.max; mkdir /sys/fs/cgroup/own'
sandbox restart -grace 1s a >&2
sandbox exec a hostname
sandbox down >&2
find /sys/fs/cgroup /run -path '*slurmlet-sandbox*'
grep slurmlet-sandbox /proc/mounts || true
`

func TestRealNative(t *testing.T) {
	s := fresh(t, "test-native")
	if !s.Guest() {
		t.Skip("this host runs everything natively")
	}
	script := fmt.Sprintf(nativeScript, s.settings.Slurm, filepath.Dir(s.options.Binary), s.settings.Root, filepath.Base(s.options.Binary))
	var out, errs bytes.Buffer
	code, err := s.Shell(t.Context(), How{}, Streams{Stdin: strings.NewReader(script), Stdout: &out, Stderr: &errs}, "timeout", fmt.Sprint(time.Minute.Seconds()), "sh", "-s")
	require.NoError(t, err)
	require.Zero(t, code, errs.String())
	assert.Equal(t, "0::/\n150000 100000\na\n", out.String())
	assert.Contains(t, errs.String(), "natively")
}
