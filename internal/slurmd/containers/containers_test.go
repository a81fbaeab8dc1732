package containers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProbe plays programs that answer, refuse, say something else or nothing.
func TestProbe(t *testing.T) {
	assert.Nil(t, Probe(t.Context(), ""), "a node that makes none")
	for name, one := range map[string]struct {
		script string
		want   Status
		shown  string
	}{
		"all": {
			"[ $1 = probe ] && echo directories: yes && echo squashfs files: yes",
			Status{},
			"can be made of directories, squashfs files and registries' images",
		},
		"directories alone": {
			"echo directories: yes; echo squashfs files: no: want /dev/fuse: no such file",
			Status{SquashfsLacks: "want /dev/fuse: no such file"},
			"can be made of directories, and not of squashfs files and registries' images: want /dev/fuse: no such file",
		},
		"none": {
			"echo slurmlet: seccomp forbids it >&2; exit 1",
			Status{Lacks: "seccomp forbids it"},
			"cannot be made: seccomp forbids it",
		},
		"half an answer": {
			"echo directories: yes",
			Status{Lacks: "PROGRAM probe: it does not say whether it makes containers of squashfs files"},
			"cannot be made: PROGRAM probe: it does not say whether it makes containers of squashfs files",
		},
	} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "slurmlet-container")
			require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+one.script+"\n"), 0o755))
			saw := Probe(t.Context(), program)
			if one.want.Lacks != "" {
				saw.Lacks = strings.ReplaceAll(saw.Lacks, program, "PROGRAM")
			}
			assert.Equal(t, &one.want, saw)
			assert.Equal(t, one.shown, saw.String())
			assert.Equal(t, one.want.Lacks == "", saw.Ready())
			assert.Equal(t, one.want == Status{}, saw.Squashfs())
		})
	}
	t.Run("the program is not there", func(t *testing.T) {
		saw := Probe(t.Context(), "/no/such/program")
		assert.Contains(t, saw.Lacks, "cannot run /no/such/program")
	})
}
