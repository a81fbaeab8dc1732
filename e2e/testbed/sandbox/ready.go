package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// AgentPort is where the agents in the pods answer.
const AgentPort = 8817

// AgentStatus is what an agent says of itself, as far as it is needed here.
type AgentStatus struct {
	State  string `json:"state"`
	Doing  string `json:"doing,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Services are the helpers beside its daemon.
	Services []struct {
		Name  string `json:"name"`
		State string `json:"state"`
	} `json:"services,omitempty"`
}

// Ready is the state of an agent that serves.
const Ready = "Ready"

func (a AgentStatus) String() string {
	text := a.State
	if a.Doing != "" {
		text += ", " + a.Doing
	}
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	parts := []string{text}
	for _, s := range a.Services {
		parts = append(parts, s.Name+" "+s.State)
	}
	return strings.Join(parts, ", ")
}

// serves: the daemon does, and all beside it.
func (a AgentStatus) serves() bool {
	for _, s := range a.Services {
		if s.State != Running {
			return false
		}
	}
	return a.State == Ready
}

// HTTP returns a client whose requests go to the pod that the host part names:
// http://node-0:8817/metrics.
func (s *Sandbox) HTTP() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return s.client.Dial(ctx, address)
		},
	}}
}

// agentSocket is where an agent tells all it knows: its port tells strangers less.
const agentSocket = "/run/slurmlet/agent.sock"

// Agent returns a client whose requests go to the socket of the agent in the pod that
// the host part names: http://node-0/status.
func (s *Sandbox) Agent() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			pod, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return s.client.Dial(ctx, pod+":"+agentSocket)
		},
	}}
}

// AskAgent reads into status what the agent in a pod tells of itself.
func (s *Sandbox) AskAgent(ctx context.Context, pod string, status any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+pod+"/status", nil)
	if err != nil {
		return fmt.Errorf("cannot ask pod %s: %v", pod, err)
	}
	response, err := s.Agent().Do(request)
	if err != nil {
		return fmt.Errorf("cannot ask pod %s: %v", pod, err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(status); err != nil {
		return fmt.Errorf("cannot read the status of pod %s: %v", pod, err)
	}
	return nil
}

// AgentStatus asks the agent in a pod.
func (s *Sandbox) AgentStatus(ctx context.Context, pod string) (AgentStatus, error) {
	var status AgentStatus
	err := s.AskAgent(ctx, pod, &status)
	return status, err
}

// WaitReady waits until the agents of all pods are Ready, and tells progress
// what each of them says meanwhile, everything once.
func (s *Sandbox) WaitReady(ctx context.Context, limit time.Duration, progress func(string, ...any), pods ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready within %v", limit))
	defer cancel()
	var all group
	for _, pod := range pods {
		all.run(func() error { return s.waitReady(ctx, pod, progress) })
	}
	return all.wait()
}

func (s *Sandbox) waitReady(ctx context.Context, pod string, progress func(string, ...any)) error {
	said := map[string]bool{}
	for {
		now := "no answer yet"
		if status, err := s.AgentStatus(ctx, pod); err == nil {
			now = status.String()
			if status.serves() {
				progress("%s: %s", pod, now)
				return nil
			}
		}
		if !said[now] && ctx.Err() == nil {
			progress("%s: %s", pod, now)
			said[now] = true
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pod %s is %s: %w\n%s", pod, now, context.Cause(ctx), s.lastLines(pod))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// lastLines is the end of a pod's log, for an error.
func (s *Sandbox) lastLines(pod string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	text, err := s.Logs(ctx, pod)
	if err != nil {
		return errors.Join(errors.New("no log"), err).Error()
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
