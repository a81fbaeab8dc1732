package pod

import (
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Status is a pod as it is now.
type Status struct {
	Name  string `json:"name"`
	Role  string `json:"role,omitempty"`
	Image string `json:"image,omitempty"`
	IP    string `json:"ip"`
	// State is Running or Exited.
	State string `json:"state"`
	// PID is the container's PID 1 as the sandbox sees it. 0: none.
	PID int `json:"pid,omitempty"`
	// ExitCode is 128 + the signal for a killed one, as the kubelet shows it.
	ExitCode int    `json:"exitCode"`
	Signal   string `json:"signal,omitempty"`
	// OOMKills are those in the last container that ended.
	OOMKills int       `json:"oomKills,omitempty"`
	Restarts int       `json:"restarts"`
	Started  time.Time `json:"started"`
	// Finished is when the last container ended, if the pod does not run.
	Finished time.Time `json:"finished,omitzero"`
	// Cgroup is the directory of the container's cgroup inside the sandbox.
	Cgroup string `json:"cgroup"`
}

const (
	Running = "Running"
	Exited  = "Exited"
)

// Status of all pods, by name.
func (k *Kubelet) Status() []Status {
	out := []Status{}
	for _, name := range k.names() {
		p, err := k.pod(name)
		if err != nil {
			continue // deleted meanwhile
		}
		if c := p.container(); c != nil {
			out = append(out, k.status(p, c))
		}
	}
	return out
}

func (k *Kubelet) status(p *pod, c *container) Status {
	s := Status{
		Name: p.spec.Name, Role: p.spec.Role, Image: p.spec.Image, IP: p.ip, Started: c.started,
		Restarts: p.restarts, Cgroup: filepath.Join(cgroupMount, k.cgroup(p)),
	}
	select {
	case <-c.gone:
		s.State, s.Finished, s.OOMKills = Exited, c.finished, c.oomKills
		s.ExitCode, s.Signal = exitCode(c.status)
	default:
		s.State, s.PID = Running, c.pid
	}
	return s
}

func exitCode(status unix.WaitStatus) (int, string) {
	if status.Signaled() {
		return 128 + int(status.Signal()), unix.SignalName(status.Signal())
	}
	return status.ExitStatus(), ""
}
