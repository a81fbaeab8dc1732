package sandbox

import (
	"context"
	"fmt"
	"time"
)

// agentMoment is what an agent may take. It says what it is doing.
const agentMoment = 10 * time.Second

// Became returns what has become of a new pod: its agent is Ready, its container has ended, or a while is over. A program
// that is no agent says nothing, and is watched for the moment. The error has the last lines of a container that has failed.
func (s *Sandbox) Became(ctx context.Context, pod string, moment time.Duration) (string, error) {
	started := time.Now()
	for {
		status, err := s.podStatus(ctx, pod)
		switch {
		case err != nil:
			return "", err
		case status.State == Exited && status.ExitCode == 0 && status.Restarts == 0:
			return "its container has ended with exit status 0", nil
		case status.State == Exited:
			return "", fmt.Errorf("its container has ended with exit status %d:\n%s", status.ExitCode, s.lastLines(pod))
		case status.Restarts > 0:
			return "", fmt.Errorf("its container has ended, and runs again:\n%s", s.lastLines(pod))
		}
		limit, now := moment, "runs"
		if agent, err := s.AgentStatus(ctx, pod); err == nil {
			if limit, now = agentMoment, "its agent is "+agent.String(); agent.serves() {
				return now, nil
			}
		} else if status.Role != "" {
			limit = agentMoment
		}
		if time.Since(started) > limit {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *Sandbox) podStatus(ctx context.Context, name string) (PodStatus, error) {
	pods, err := s.Status(ctx)
	if err != nil {
		return PodStatus{}, err
	}
	for _, p := range pods {
		if p.Name == name {
			return p, nil
		}
	}
	return PodStatus{}, fmt.Errorf("no pod %q", name)
}
