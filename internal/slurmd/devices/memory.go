package devices

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// Memory is a GPU's own, in bytes; zero where the driver reports it to libraries only, as NVIDIA's
// does.
type Memory struct{ Total, Used uint64 }

// Memory reads what AMD's driver has in /sys, which wakes no GPU up. A GPU that it does not
// report has none.
func (f FS) Memory(g GPU) Memory {
	if g.Vendor != AMD {
		return Memory{}
	}
	dir := "/sys/class/drm/" + path.Base(g.Files[0]) + "/device/"
	total, found := f.number(dir + "mem_info_vram_total")
	used, foundToo := f.number(dir + "mem_info_vram_used")
	if !found || !foundToo {
		return Memory{}
	}
	return Memory{total, used}
}

func (f FS) number(file string) (uint64, bool) {
	text, err := os.ReadFile(f.at(file))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 63)
	return n, err == nil
}

// Present says whether the container has all device nodes of a GPU.
func (f FS) Present(g GPU) bool { return f.Missing(g.Files) == "" }
