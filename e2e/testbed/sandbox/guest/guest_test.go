package guest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestArguments(t *testing.T) {
	args := Guest{Boot: "/run/s/boot", Init: "/init", CPUs: 2, Memory: 4096, Cable: "v0"}.args("/run/s/boot/memory")
	assert.Subset(t, args, []string{
		"mem=4096M", "ncpus=2", "rootfstype=hostfs", "rootflags=/run/s/boot", "init=/init", "seccomp=on",
		"uml_dir=/run/s/boot/memory/", "vec0:transport=raw,ifname=v0,gro=1",
	})
	assert.NotContains(t, strings.Join(args, " "), "ubd")
	withDisk := Guest{Memory: 4096, Disk: "/run/d.ext4"}
	assert.Contains(t, withDisk.args("/m"), "ubd0=/m/disk.cow,/run/d.ext4")
	assert.Equal(t, 4096+64+written, withDisk.room())
}
