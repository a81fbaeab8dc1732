package devices

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// instance is one compute instance of MIG: the nodes of its two capabilities.
// Who can open both, and the GPU's own, can use it.
type instance struct{ gpu, compute string }

// migInstances lists how a GPU is divided, whoever may use the parts.
func (f FS) migInstances(minor int) []instance {
	var all []instance
	dir := fmt.Sprintf("/proc/driver/nvidia/capabilities/gpu%d/mig", minor)
	for _, gi := range f.numbered(dir, "gi") {
		part := fmt.Sprintf("%s/gi%d", dir, gi)
		gpu, readable := f.capability(part)
		for _, ci := range f.numbered(part, "ci") {
			compute, readableToo := f.capability(fmt.Sprintf("%s/ci%d", part, ci))
			if readable && readableToo {
				all = append(all, instance{gpu, compute})
			} else {
				all = append(all, instance{}) // divided all the same
			}
		}
	}
	return all
}

// capability is the device node that opens a capability.
func (f FS) capability(dir string) (string, bool) {
	text, err := os.ReadFile(f.at(dir + "/access"))
	if err != nil {
		return "", false
	}
	minor, err := strconv.ParseUint(fields(string(text), ":")["DeviceFileMinor"], 10, 20)
	return fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", minor), err == nil
}

// migType is what Slurm makes of the GPU's name before it adds the profile's,
// which /proc does not have.
func migType(model string) string {
	if model == "" {
		return ""
	}
	model, _, _ = strings.Cut(model, "-")
	return model + "_mig"
}
