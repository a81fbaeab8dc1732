// Package pod makes pods as a kubelet with containerd and runc does: one
// container each, with its own namespaces, cgroup, network and volumes. It runs
// inside the sandbox, in a root file system that has runc, on pure cgroup v2.
package pod

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Spec says what a pod is. Its JSON is what `slurmlet-sandbox create` reads.
type Spec struct {
	// Name is a DNS label: the pod's name, its host name and what the others resolve.
	Name string `json:"name"`
	// Role is only shown.
	Role string `json:"role,omitempty"`
	// Image is a Slurm version, one that parts.Versions names. Empty: the sandbox's own.
	Image string `json:"image,omitempty"`
	// Root is the host's directory that becomes the lower layer of the root file
	// system. The client fills it in from Image.
	Root string `json:"root,omitempty"`
	// Args is the command. Its first element is looked up in PATH.
	Args []string          `json:"args"`
	Env  map[string]string `json:"env,omitempty"`
	// CPU is the quota in CPUs (cpu.max), to a thousandth. 0: no limit.
	CPU float64 `json:"cpu,omitempty"`
	// CPUSet pins the pod (cpuset.cpus), as the static CPU manager does.
	CPUSet string `json:"cpuset,omitempty"`
	// Memory is memory.max in bytes. 0: no limit.
	Memory int64 `json:"memory,omitempty"`
	// Swap is memory.swap.max in bytes. It counts only with Memory.
	Swap int64 `json:"swap,omitempty"`
	// OOMGroup sets memory.oom.group, as the kubelet does on cgroup v2.
	OOMGroup bool `json:"oomGroup,omitempty"`
	// OOMScoreAdj is what the kubelet derives from the QoS class: −997
	// guaranteed, 1000 best effort, between 2 and 999 burstable.
	OOMScoreAdj int `json:"oomScoreAdj,omitempty"`
	// CgroupReadOnly mounts the container's cgroup as an unprivileged pod finds
	// it by default; else it is as with containerd's cgroup_writable.
	CgroupReadOnly bool `json:"cgroupReadOnly,omitempty"`
	// HostCgroup leaves the container in the host's cgroup namespace, with all of
	// the hierarchy in sight: what a privileged pod gets.
	HostCgroup bool `json:"hostCgroup,omitempty"`
	// Capabilities replaces the set that containerd gives by default.
	Capabilities []string `json:"capabilities,omitempty"`
	// AddCapabilities are given besides, as securityContext.capabilities.add does.
	AddCapabilities []string `json:"addCapabilities,omitempty"`
	// Seccomp is a profile (the runtime specification's "seccomp", as the kubelet reads it for a profile of type Localhost).
	// The container's processes gain no privileges then, as with allowPrivilegeEscalation: false. Empty: there is none.
	Seccomp json.RawMessage `json:"seccomp,omitempty"`
	// Devices are made in the container, and may be used there.
	Devices []Device `json:"devices,omitempty"`
	Volumes []Volume `json:"volumes,omitempty"`
	// Restart is "Never" (the default) or "Always".
	Restart string `json:"restart,omitempty"`
}

// Device is a character device, as a device plugin has the kubelet give one.
type Device struct {
	Path  string `json:"path"`
	Major int64  `json:"major"`
	Minor int64  `json:"minor"`
}

// Volume is a directory of the pod's. With nothing but a name and a path it is
// an emptyDir: it survives the container, not the pod.
type Volume struct {
	Name     string `json:"name"`
	Path     string `json:"path"`
	ReadOnly bool   `json:"readOnly,omitempty"`
	// Mode, UID and GID are the directory's and the files' owner. Mode 0: 0755
	// for the directory and 0644 for files.
	Mode uint32 `json:"mode,omitempty"`
	UID  int    `json:"uid,omitempty"`
	GID  int    `json:"gid,omitempty"`
	// Shared volumes are one directory for all pods that name it, and stay until
	// the sandbox goes.
	Shared bool `json:"shared,omitempty"`
	// HostPath binds a file or directory of the host's, read-only always.
	HostPath string `json:"hostPath,omitempty"`
	// Files are written when the pod is made.
	Files map[string]File `json:"files,omitempty"`
	// Projected writes Files as the kubelet writes a ConfigMap or a Secret: links
	// through ..data, which an update swaps.
	Projected bool `json:"projected,omitempty"`
}

// File is the content of one file, and its mode (0: 0644).
type File struct {
	Data []byte `json:"data"`
	Mode uint32 `json:"mode,omitempty"`
}

const (
	RestartNever  = "Never"
	RestartAlways = "Always"
)

var capability = regexp.MustCompile(`^CAP_[A-Z][A-Z_]*$`)

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Validate reports everything that is wrong with the pod at once.
func (s Spec) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !label.MatchString(s.Name) {
		bad("name %q: want a DNS label (a-z, 0-9 and -, at most 63 characters)", s.Name)
	}
	if len(s.Args) == 0 {
		bad("args: want a command")
	}
	if s.CPU < 0 || s.CPU > 0 && s.CPU < 0.01 {
		bad("cpu %v: want 0 (no limit) or at least 0.01", s.CPU)
	}
	if s.Memory < 0 || s.Swap < 0 {
		bad("memory %d, swap %d: want bytes, 0 or more", s.Memory, s.Swap)
	}
	if s.Restart != "" && s.Restart != RestartNever && s.Restart != RestartAlways {
		bad("restart %q: want %s or %s", s.Restart, RestartNever, RestartAlways)
	}
	for _, name := range slices.Concat(s.Capabilities, s.AddCapabilities) { // runc passes over what it does not know
		if !capability.MatchString(name) {
			bad("capability %q: want CAP_ and a name, as in CAP_SYS_ADMIN", name)
		}
	}
	for _, d := range s.Devices {
		if path.Clean(d.Path) != d.Path || !strings.HasPrefix(d.Path, "/dev/") || d.Major < 0 || d.Minor < 0 {
			bad("device %q, %d:%d: want a path below /dev and two numbers, 0 or more", d.Path, d.Major, d.Minor)
		}
	}
	for _, v := range s.Volumes {
		errs = append(errs, v.validate())
	}
	if _, err := s.seccomp(); err != nil {
		bad("seccomp: %w", err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("pod is not valid: %w", err)
	}
	return nil
}

// seccomp is the profile in the runtime's words, nil for none.
func (s Spec) seccomp() (*specs.LinuxSeccomp, error) {
	if len(s.Seccomp) == 0 {
		return nil, nil
	}
	profile := &specs.LinuxSeccomp{}
	return profile, json.Unmarshal(s.Seccomp, profile)
}

func (v Volume) validate() error {
	if !label.MatchString(v.Name) {
		return fmt.Errorf("volume name %q: want a DNS label", v.Name)
	}
	if !path.IsAbs(v.Path) || v.Path == "/" {
		return fmt.Errorf("volume %s: path %q: want an absolute path below /", v.Name, v.Path)
	}
	if v.HostPath != "" && (v.Shared || len(v.Files) > 0) {
		return fmt.Errorf("volume %s: hostPath goes with neither shared nor files", v.Name)
	}
	for name := range v.Files {
		if name == "" || strings.ContainsRune(name, '/') || strings.HasPrefix(name, ".") {
			return fmt.Errorf("volume %s: file name %q: want a plain name", v.Name, name)
		}
	}
	return nil
}
