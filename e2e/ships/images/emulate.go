package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// foreign says how the kernel knows programs of an architecture, and who runs
// them: the first 20 bytes of an ELF file (e_ident, e_type, e_machine).
var foreign = map[string]struct{ interpreter, magic string }{
	"amd64": {"/usr/bin/qemu-x86_64-static", `\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00`},
	"arm64": {"/usr/bin/qemu-aarch64-static", `\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00`},
}

// anyLinux takes every OS ABI, and executables that are shared objects too.
const anyLinux = `\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff`

// emulate makes the kernel run programs of arch until native is called
// (Documentation/admin-guide/binfmt-misc.rst). A kernel that runs them already
// is left as it is. The flag F opens the interpreter now, so that it need not be in
// the image.
func emulate(ctx context.Context, arch string) (native func() error, err error) {
	nothing := func() error { return nil }
	if arch == runtime.GOARCH {
		return nothing, nil
	}
	how, known := foreign[arch]
	if !known {
		return nil, fmt.Errorf("cannot build for %q: there are amd64 and arm64", arch)
	}
	if err := parts.Install(ctx, say, "emulation"); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "slurmlet-binfmt-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory for binfmt_misc: %w", err)
	}
	if err := syscall.Mount("binfmt_misc", dir, "binfmt_misc", 0, ""); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot mount binfmt_misc, which runs programs of %s: %w", arch, err), os.Remove(dir))
	}
	leave := func() error { return errors.Join(syscall.Unmount(dir, 0), os.Remove(dir)) }
	runs, err := interpreted(dir, how.magic)
	if err != nil {
		return nil, errors.Join(err, leave())
	}
	if runs {
		return nothing, leave()
	}
	name := "slurmlet-" + arch
	entry := fmt.Sprintf(":%s:M::%s:%s:%s:F", name, how.magic, anyLinux, how.interpreter)
	if err := os.WriteFile(filepath.Join(dir, "register"), []byte(entry), 0o200); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot register %s with binfmt_misc: %w", how.interpreter, err), leave())
	}
	say("%s runs programs of %s until the build is over", how.interpreter, arch)
	return func() error {
		return errors.Join(os.WriteFile(filepath.Join(dir, name), []byte("-1"), 0o200), leave())
	}, nil
}

// interpreted says whether an entry in binfmt_misc's directory takes programs with magic.
func interpreted(dir, magic string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("cannot list binfmt_misc: %w", err)
	}
	wanted := "magic " + hexadecimal(magic)
	for _, e := range entries {
		if e.Name() == "register" || e.Name() == "status" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return false, fmt.Errorf("cannot read what binfmt_misc has: %w", err)
		}
		if strings.HasPrefix(string(text), "enabled\n") && strings.Contains(string(text), wanted+"\n") {
			return true, nil
		}
	}
	return false, nil
}

// hexadecimal turns the bytes that register takes into those that an entry shows.
func hexadecimal(magic string) string {
	return strings.ReplaceAll(strings.Replace(magic, "ELF", `\x45\x4c\x46`, 1), `\x`, "")
}
