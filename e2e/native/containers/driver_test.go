//go:build e2e

package containers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// driverCases have a node with what a runtime brings into a pod with a GPU: a device, libraries and a program, which are
// empty here. Whether the linker finds them is seen by what it says of a library that it is to load first.
var driverCases = []testCase{
	{"a container has the libraries of the GPU's driver", (*world).driver},
}

// driverFiles are of a driver, with their SONAMEs.
var driverFiles = map[string]string{
	"libcuda.so.550.54.15": "libcuda.so.1", "libnvidia-ml.so.550.54.15": "libnvidia-ml.so.1",
	"libGLX_nvidia.so.550.54.15": "libGLX_nvidia.so.0", "libnvidia-glcore.so.550.54.15": "libnvidia-glcore.so.550.54.15",
}

func (w *world) driver() (err error) {
	dir := filepath.Join(w.Root, "usr/lib/x86_64-linux-gnu")
	made := []string{"dev/nvidiactl", "usr/bin/nvidia-smi"}
	err = errors.Join(w.write(made[0], "", 0o666), w.write(made[1], "#!/bin/sh\necho one GPU\n", 0o755))
	for file, soname := range driverFiles {
		made = append(made, filepath.Join("usr/lib/x86_64-linux-gnu", file))
		out, failed := exec.Command("cc", "-shared", "-nostdlib", "-Wl,-soname,"+soname, "-o", filepath.Join(dir, file), "-x", "c", os.DevNull).
			CombinedOutput()
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("cc: %w: %s", failed, out))
		}
	}
	defer func() {
		for _, path := range made {
			err = errors.Join(err, os.Remove(filepath.Join(w.Root, path)))
		}
	}()
	if err != nil {
		return err
	}
	const (
		loads = "for l in libcuda.so.1 libcuda.so libnvidia-ml.so.1 libGLX_nvidia.so.0; do LD_PRELOAD=$l /usr/bin/true 2>&1; done; " +
			"LD_PRELOAD=libcuda.so.2 /usr/bin/true 2>&1 | grep -c cannot"
		paths = "; [ -z \"$LD_LIBRARY_PATH\" ] || echo $LD_LIBRARY_PATH; nvidia-smi"
	)
	for _, root := range []string{in, "--container-image=/" + squashed, in + " --container-remap-root --container-writable", w.of("app:1")} {
		err = errors.Join(err, w.prints(root, loads+paths, "1 one GPU"))
	}
	// an image of another user's keeps its linker's cache, and gets a directory for its files to be found by
	ldconfig := filepath.Join(w.Root, "usr/sbin/ldconfig")
	err = errors.Join(err, os.Rename(ldconfig, ldconfig+".away"),
		w.prints(in, "LD_PRELOAD=libcuda.so.1 /usr/bin/true 2>&1; echo $LD_LIBRARY_PATH", "/.nvidia/lib"),
		os.Rename(ldconfig+".away", ldconfig))
	return errors.Join(err,
		w.prints(in+" --container-env=NVIDIA_VISIBLE_DEVICES", "ls -a / | grep -c nvidia || true", "0", "NVIDIA_VISIBLE_DEVICES=void"),
		w.left())
}
