package pod

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Place is where a pod's container finds what was prepared for it.
type Place struct {
	// Root is the mounted overlay.
	Root string
	// Netns is a file that holds the network namespace.
	Netns string
	// Cgroup is the path below the cgroup2 mount point.
	Cgroup string
	// Hosts and Resolv are the files seen at /etc/hosts and /etc/resolv.conf.
	Hosts, Resolv string
	// Volumes maps a volume's name to its directory (or file).
	Volumes map[string]string
}

// Period is the cpu.max period that the kubelet uses, in microseconds.
const Period = 100_000

// containerd's default set (core/containers/spec_opts, defaultUnixCaps).
var defaultCapabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
}

// Bundle translates the pod into the runtime's words.
func Bundle(s Spec, at Place) *specs.Spec {
	seccomp, _ := s.seccomp() // Validate has read it
	return &specs.Spec{
		Version:  specs.Version,
		Hostname: s.Name,
		Root:     &specs.Root{Path: at.Root},
		Process:  process(s),
		Mounts:   append(systemMounts(s, at), volumeMounts(s, at)...),
		Linux: &specs.Linux{
			CgroupsPath:   at.Cgroup,
			Resources:     resources(s),
			Devices:       deviceNodes(s),
			Seccomp:       seccomp,
			Namespaces:    namespaces(s, at),
			MaskedPaths:   maskedPaths,
			ReadonlyPaths: readonlyPaths,
		},
	}
}

func writeBundle(dir string, spec *specs.Spec) error {
	data, err := json.MarshalIndent(spec, "", "\t")
	if err != nil {
		return fmt.Errorf("cannot write bundle: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600); err != nil {
		return fmt.Errorf("cannot write bundle: %v", err)
	}
	return nil
}

func process(s Spec) *specs.Process {
	caps := s.Capabilities
	if caps == nil {
		caps = defaultCapabilities
	}
	caps = append(slices.Clip(caps), s.AddCapabilities...)
	return &specs.Process{
		Args:         s.Args,
		Env:          environment(s.Env),
		Cwd:          "/",
		Capabilities: &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps},
		// systemd's defaults, which a container inherits from containerd.
		Rlimits:     []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: 1024, Hard: 524288}},
		OOMScoreAdj: &s.OOMScoreAdj,
		// allowPrivilegeEscalation: false
		NoNewPrivileges: len(s.Seccomp) > 0,
	}
}

// Path is the PATH of every pod: the one that containerd sets.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func environment(env map[string]string) []string {
	out := []string{"PATH=" + Path, "HOME=/root"}
	for _, key := range slices.Sorted(maps.Keys(env)) {
		out = append(out, key+"="+env[key])
	}
	return out
}

func namespaces(s Spec, at Place) []specs.LinuxNamespace {
	all := []specs.LinuxNamespace{
		{Type: specs.PIDNamespace},
		{Type: specs.MountNamespace},
		{Type: specs.UTSNamespace},
		{Type: specs.IPCNamespace},
		{Type: specs.CgroupNamespace},
		{Type: specs.NetworkNamespace, Path: at.Netns},
	}
	if s.HostCgroup {
		all = slices.DeleteFunc(all, func(n specs.LinuxNamespace) bool { return n.Type == specs.CgroupNamespace })
	}
	return all
}

func resources(s Spec) *specs.LinuxResources {
	r := &specs.LinuxResources{
		CPU:     &specs.LinuxCPU{Cpus: s.CPUSet},
		Devices: allowed(s),
	}
	if s.CPU > 0 {
		quota, period := int64(s.CPU*1000+0.5)*Period/1000, uint64(Period)
		r.CPU.Quota, r.CPU.Period = &quota, &period
	}
	if s.Memory > 0 {
		// The runtime counts memory and swap together here.
		both := s.Memory + s.Swap
		r.Memory = &specs.LinuxMemory{Limit: &s.Memory, Swap: &both}
	}
	if s.OOMGroup {
		r.Unified = map[string]string{"memory.oom.group": "1"}
	}
	return r
}

// allowed: no device but those that the runtime always allows, and the pod's own.
func allowed(s Spec) []specs.LinuxDeviceCgroup {
	rules := []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}
	for _, d := range s.Devices {
		rules = append(rules, specs.LinuxDeviceCgroup{Allow: true, Type: "c", Major: &d.Major, Minor: &d.Minor, Access: "rw"})
	}
	return rules
}

func deviceNodes(s Spec) []specs.LinuxDevice {
	var nodes []specs.LinuxDevice
	for _, d := range s.Devices {
		mode := os.FileMode(0o666)
		nodes = append(nodes, specs.LinuxDevice{Path: d.Path, Type: "c", Major: d.Major, Minor: d.Minor, FileMode: &mode})
	}
	return nodes
}

func systemMounts(s Spec, at Place) []specs.Mount {
	cgroup := []string{"nosuid", "noexec", "nodev", "relatime", "rw"}
	if s.CgroupReadOnly {
		cgroup[4] = "ro"
	}
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: cgroup},
		{Destination: "/run", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=755"}},
		{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777"}},
		bind(at.Hosts, "/etc/hosts", false),
		bind(at.Resolv, "/etc/resolv.conf", false),
	}
}

func volumeMounts(s Spec, at Place) []specs.Mount {
	var out []specs.Mount
	for _, v := range s.Volumes {
		out = append(out, bind(at.Volumes[v.Name], v.Path, v.ReadOnly || v.HostPath != ""))
	}
	return out
}

func bind(source, destination string, readOnly bool) specs.Mount {
	options := []string{"rbind", "rprivate", "rw"}
	if readOnly {
		options[2] = "ro"
	}
	return specs.Mount{Destination: destination, Type: "bind", Source: source, Options: options}
}

// What containerd masks and protects in an unprivileged container.
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)
