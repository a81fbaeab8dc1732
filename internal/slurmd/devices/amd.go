package devices

import (
	"fmt"
	"os"
	"strconv"
)

const kfdNodes = "/sys/class/kfd/kfd/topology/nodes"

// findAMD goes by the driver's topology, as ROCm counts. A node whose properties
// cannot be read is another pod's: the kernel asks the device cgroup.
func (f FS) findAMD(found *Found) {
	if !f.given("/dev/kfd", found) {
		return
	}
	for _, node := range f.numbered(kfdNodes, "") {
		text, err := os.ReadFile(f.at(fmt.Sprintf("%s/%d/properties", kfdNodes, node)))
		if err != nil {
			continue
		}
		card, isGPU := parseProperties(string(text))
		file := fmt.Sprintf("/dev/dri/renderD%d", card.minor)
		if isGPU && f.given(file, found) {
			found.GPUs = append(found.GPUs, GPU{AMD, f.amdType(card), []string{file}})
		}
	}
}

type amdCard struct {
	minor  uint64
	target uint64
}

// parseProperties reads a node of the topology; one without a render node is a CPU.
func parseProperties(text string) (amdCard, bool) {
	properties := fields(text, " ")
	minor, err := strconv.ParseUint(properties["drm_render_minor"], 10, 20)
	target, _ := strconv.ParseUint(properties["gfx_target_version"], 10, 32) // 0: unknown
	return amdCard{minor, target}, err == nil && minor > 0 && properties["vendor_id"] == "4098"
}

func (f FS) amdType(c amdCard) string {
	name, err := os.ReadFile(f.at(fmt.Sprintf("/sys/class/drm/renderD%d/device/product_name", c.minor)))
	if product := typeName(string(name)); err == nil && product != "" {
		return product
	}
	if c.target == 0 {
		return ""
	}
	return fmt.Sprintf("gfx%d%x%x", c.target/10000, c.target/100%100, c.target%100)
}
