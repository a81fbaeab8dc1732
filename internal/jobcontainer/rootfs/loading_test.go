package rootfs

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLoading compares with debug/elf what is read of this machine's programs and of this test, and cuts one anywhere.
func TestLoading(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	programs, err := filepath.Glob("/usr/bin/[a-e]*")
	require.NoError(t, err)
	compared := 0
	for _, path := range append(programs, self) {
		f, err := elf.Open(path)
		if err != nil || f.Class != elf.ELFCLASS64 {
			continue
		}
		var linker string
		if section := f.Section(".interp"); section != nil {
			data, err := section.Data()
			require.NoError(t, err)
			linker = strings.TrimRight(string(data), "\x00")
		}
		var want string
		for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
			if paths, err := f.DynString(tag); err == nil && len(paths) > 0 {
				want, _, _ = strings.Cut(paths[0], ":")
			}
		}
		require.NoError(t, f.Close())
		gotLinker, got, err := loading(path)
		require.NoError(t, err, path)
		assert.Equal(t, [2]string{linker, want}, [2]string{gotLinker, got}, path)
		compared++
	}
	assert.Greater(t, compared, 10)

	whole, err := os.ReadFile("/usr/bin/env")
	require.NoError(t, err)
	cut := filepath.Join(t.TempDir(), "cut")
	for length := 0; length < min(len(whole), 2000); length += 7 {
		require.NoError(t, os.WriteFile(cut, whole[:length], 0o600))
		_, _, err := loading(cut)
		assert.Truef(t, err != nil || length > elfHeader, "%d bytes are no program", length)
		for at := 32; length > elfHeader && at < 64; at++ { // a header with any numbers
			broken := append([]byte{}, whole[:length]...)
			broken[at] = 0xff
			require.NoError(t, os.WriteFile(cut, broken, 0o600))
			_, _, _ = loading(cut)
		}
	}
	_, _, err = loading(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
