package devices

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// The driver's words about its GPUs, one directory each, named by PCI address.
const nvidiaGPUs = "/proc/driver/nvidia/gpus"

// nvidiaCard is what the driver says of one GPU.
type nvidiaCard struct {
	minor int
	model string
}

// findNVIDIA goes by PCI address, as CUDA counts: the order of minor numbers may be
// another.
func (f FS) findNVIDIA(found *Found) {
	entries, _ := os.ReadDir(f.at(nvidiaGPUs)) // sorted; no driver is no entry
	known := map[int]bool{}
	for _, e := range entries {
		card, usable := f.nvidiaCard(path.Join(nvidiaGPUs, e.Name(), "information"), found)
		if !usable || known[card.minor] {
			continue
		}
		known[card.minor] = true
		f.nvidiaGPU(card, found)
	}
	for _, minor := range f.numbered("/dev", "nvidia") {
		switch file := nvidiaFile(minor); {
		case known[minor] || !f.given(file, found):
		case len(entries) == 0:
			found.GPUs = append(found.GPUs, GPU{NVIDIA, "", []string{file}})
		default:
			found.note(file, ": the driver knows no such GPU: it does not count")
		}
	}
}

func nvidiaFile(minor int) string { return "/dev/nvidia" + strconv.Itoa(minor) }

func (f FS) nvidiaCard(file string, found *Found) (nvidiaCard, bool) {
	text, err := os.ReadFile(f.at(file))
	if err != nil {
		found.note("cannot read ", file, ": the GPU does not count")
		return nvidiaCard{}, false
	}
	card, fault := parseInformation(string(text))
	if fault != "" {
		found.note(file, ": ", fault, ": the GPU does not count")
	}
	return card, fault == ""
}

// parseInformation reads what the driver says of a GPU.
func parseInformation(text string) (nvidiaCard, string) {
	info := fields(text, ":")
	minor, err := strconv.ParseUint(info["Device Minor"], 10, 20)
	switch {
	case strings.EqualFold(info["GPU Excluded"], "Yes"):
		return nvidiaCard{}, "the driver excludes it"
	case err != nil:
		return nvidiaCard{}, "there is no number in Device Minor"
	}
	return nvidiaCard{int(minor), typeName(info["Model"])}, ""
}

// nvidiaGPU counts a GPU as a whole, or by its instances.
func (f FS) nvidiaGPU(card nvidiaCard, found *Found) {
	file := nvidiaFile(card.minor)
	if !f.given(file, found) {
		return
	}
	instances := f.migInstances(card.minor)
	if len(instances) == 0 {
		found.GPUs = append(found.GPUs, GPU{NVIDIA, card.model, []string{file}})
		return
	}
	before := len(found.GPUs)
	for _, i := range instances {
		if f.look(i.gpu) == isDevice && f.look(i.compute) == isDevice {
			found.GPUs = append(found.GPUs, GPU{NVIDIA, migType(card.model), []string{file, i.gpu, i.compute}})
		}
	}
	if len(found.GPUs) == before {
		found.note(file, " is divided (MIG), and none of its instances is in /dev/nvidia-caps: it does not count")
	}
}
