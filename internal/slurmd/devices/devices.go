// Package devices finds the GPUs that a container really has, and puts them
// into Slurm's words: Gres= of slurm.conf(5) and the lines of gres.conf(5).
//
// What counts is a character device in /dev: /proc/driver/nvidia and /sys are
// the machine's, and list GPUs that other pods have. They say what a device
// is called, no more.
//
//   - NVIDIA: /dev/nvidia0 and so on, named by /proc/driver/nvidia/gpus/*/information.
//     The type is the one that Slurm's AutoDetect=nvml and AutoDetect=nvidia
//     make: the model in lower case with underscores, nvidia_h200.
//     Where the driver lists no GPU at all, all devices count, untyped; where it
//     lists some, a device that it does not know is a stale one and counts not.
//   - MIG: a GPU that is divided counts by its instances, those whose two
//     capabilities are in /dev/nvidia-caps; never as a whole. The profile's name
//     is known to NVIDIA's library only, so the type is the GPU's with _mig.
//   - AMD: /dev/dri/renderD128 and so on, if there is /dev/kfd, which ROCm needs,
//     named by the driver's product_name, or by the instruction set, gfx942.
//
// Other render nodes are left out: nothing in /sys distinguishes a GPU for jobs from
// the machine's display.
package devices

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// FS is a view of the machine below a root directory: "/" in a container, a
// whole machine as a fixture in a test.
type FS struct{ root string }

// NewFS returns the view below root.
func NewFS(root string) FS { return FS{root: root} }

// Vendor is who made a GPU, and by that the variable from which a job learns which
// ones are its own.
type Vendor string

// The vendors whose GPUs are found.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
)

// GPU is one GPU, or one MIG instance, that jobs can be given.
type GPU struct {
	Vendor Vendor
	// Type is empty where the driver does not say.
	Type string
	// Files are the device nodes that it takes, several for a MIG instance.
	Files []string
}

// Found is what the container has, in the order in which CUDA and ROCm count.
type Found struct {
	GPUs []GPU
	// Notes say what was found and does not count, and why.
	Notes []string
}

// Find looks for them. What cannot be read does not count, and is noted.
func (f FS) Find() Found {
	var found Found
	f.findNVIDIA(&found)
	f.findAMD(&found)
	return found
}

func (found *Found) note(text ...string) { found.Notes = append(found.Notes, strings.Join(text, "")) }

// Missing names the first file of a plan that is no device node any more.
func (f FS) Missing(files []string) string {
	for _, file := range files {
		if f.look(file) != isDevice {
			return file
		}
	}
	return ""
}

type presence int

const (
	isMissing presence = iota
	isOther
	isDevice
)

// look says whether path is a character device. It is not opened: that would
// wake the GPU up, which takes seconds.
func (f FS) look(path string) presence {
	info, err := os.Stat(f.at(path))
	switch {
	case err != nil:
		return isMissing
	case info.Mode()&fs.ModeCharDevice == 0:
		return isOther
	}
	return isDevice
}

// given says whether the container has the device, and notes one that is none.
func (f FS) given(path string, found *Found) bool {
	p := f.look(path)
	if p == isOther {
		found.note(path, " is not a character device: it does not count")
	}
	return p == isDevice
}

func (f FS) at(path string) string { return filepath.Join(f.root, path) }

// numbered lists the entries of dir that are prefix and a number, by number.
func (f FS) numbered(dir, prefix string) []int {
	entries, _ := os.ReadDir(f.at(dir)) // what is not there has no entries
	var numbers []int
	for _, e := range entries {
		digits, found := strings.CutPrefix(e.Name(), prefix)
		n, err := strconv.ParseUint(digits, 10, 20) // minor numbers have 20 bits
		if found && err == nil && strconv.FormatUint(n, 10) == digits {
			numbers = append(numbers, int(n))
		}
	}
	return sorted(numbers)
}
