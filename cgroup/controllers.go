package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Missing is a controller that Slurm has no use of here, why, and what
// therefore cannot work, in the words of cgroup.conf(5) and slurm.conf(5).
type Missing struct {
	Controller  string `json:"controller"`
	Why         string `json:"why"`
	Consequence string `json:"consequence"`
}

func (m Missing) String() string {
	return fmt.Sprintf("%s (%s): %s cannot work", m.Controller, m.Why, m.Consequence)
}

// Slurm's controllers (src/plugins/cgroup/v2 asks for these and no others).
const (
	cpuController     = "cpu"
	cpusetController  = "cpuset"
	memoryController  = "memory"
	devicesController = "devices"
)

// pidsController limits how many processes there are. Slurm does not ask for it.
const pidsController = "pids"

var consequences = map[string]string{
	cpuController:     "JobAcctGatherType=jobacct_gather/cgroup",
	cpusetController:  "ConstrainCores=yes",
	memoryController:  "ConstrainRAMSpace=yes, ConstrainSwapSpace=yes and JobAcctGatherType=jobacct_gather/cgroup",
	devicesController: "ConstrainDevices=yes",
}

// refusal is a controller that the kernel did not enable.
type refusal struct {
	controller string
	err        error
}

func busy(all []refusal) bool {
	return slices.ContainsFunc(all, func(r refusal) bool { return errors.Is(r.err, unix.EBUSY) })
}

// enable turns on, one by one, what a cgroup has: a controller that the kernel
// refuses must not cost the others.
func enable(dir string) (refused []refusal) {
	for _, name := range words(filepath.Join(dir, "cgroup.controllers")) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+name), 0); err != nil {
			refused = append(refused, refusal{name, err})
		}
	}
	return refused
}

func words(file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil // what is not there enables nothing, and is missed when it is read back
	}
	return strings.Fields(string(text))
}

// enabled reads back what is on.
func enabled(dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return nil, fmt.Errorf("cannot read back the enabled controllers: %w", err)
	}
	on := strings.Fields(string(text))
	slices.Sort(on)
	return on, nil
}

// missing names what is not on, and why.
func missing(on []string, refused []refusal) (all []Missing) {
	for _, name := range []string{cpuController, cpusetController, memoryController} {
		if slices.Contains(on, name) {
			continue
		}
		why := "not in the container's cgroup.controllers"
		for _, r := range refused {
			if r.controller == name {
				why = errors.Unwrap(r.err).Error()
			}
		}
		all = append(all, Missing{name, why, consequences[name]})
	}
	return all
}

// missingDevices: cgroup v2 has no such controller, but a kind of eBPF program,
// which only some may load and attach (capabilities(7)).
func (f FS) missingDevices() []Missing {
	has := f.capabilities()
	may := func(number int) bool { return has&(1<<number) != 0 }
	if may(unix.CAP_SYS_ADMIN) || may(unix.CAP_BPF) && may(unix.CAP_NET_ADMIN) {
		return nil
	}
	return []Missing{{devicesController, "eBPF needs CAP_SYS_ADMIN, or CAP_BPF and CAP_NET_ADMIN", consequences[devicesController]}}
}

// capabilities are the effective ones; none where they cannot be read.
func (f FS) capabilities() uint64 {
	text, _ := os.ReadFile(filepath.Join(f.root, "proc/self/status"))
	for line := range strings.Lines(string(text)) {
		if mask, found := strings.CutPrefix(line, "CapEff:"); found {
			bits, _ := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return bits
		}
	}
	return 0
}
