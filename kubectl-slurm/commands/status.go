package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/slurmlet/slurmlet/kubectl-slurm/kube"
	"github.com/slurmlet/slurmlet/kubectl-slurm/overview"
	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
	"github.com/slurmlet/slurmlet/kubectl-slurm/why"
)

func newStatus(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how the cluster stands, in a screenful",
		Long: `Show the daemons, the node sets with their nodes' states, the jobs by state, the configuration, the nodes that
get no new jobs with who has set that, and warnings.

Whoever may not exec into pods sees what the agents tell everybody: states and counts (get pods/proxy).`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cluster, err := o.find(c.Context())
			if err != nil {
				return err
			}
			report, err := look(c.Context(), cluster)
			if err != nil {
				return err
			}
			return o.write(c.OutOrStdout(), report, report.WriteText)
		},
	}
	o.addOutput(c)
	return c
}

// mostLogins bounds the login pods whose agents are asked.
const mostLogins = 8

// look asks the pods, their agents and slurmctld.
func look(ctx context.Context, cluster *kube.Cluster) (overview.Report, error) {
	f := overview.Facts{Cluster: cluster.Name, Namespace: cluster.Namespace, Pods: map[string]*why.Pod{}, Agents: map[string]*slurm.Agent{}}
	pods, err := cluster.All(ctx)
	if err != nil {
		return overview.Report{}, err
	}
	var missing *kube.MissingRight // to exec
	note := func(what string, err error) {
		var m *kube.MissingRight
		switch {
		case err == nil:
		case errors.As(err, &m):
			missing = m
			if text := m.Error(); !slices.Contains(f.Unknown, text) {
				f.Unknown = append(f.Unknown, text)
			}
		default:
			f.Unknown = append(f.Unknown, fmt.Sprintf("%s: %v", what, err))
		}
	}
	logins := 0
	for i := range pods {
		p := &pods[i]
		name := kube.HostName(p)
		f.Pods[name] = kube.Describe(p)
		switch f.Pods[name].Role {
		case "login":
			if logins++; logins > mostLogins {
				continue
			}
		case "slurmd":
			continue
		}
		if p.Status.Phase == corev1.PodRunning {
			f.Agents[name], err = agentOf(ctx, cluster, p, missing != nil)
			note("the agent of "+p.Name, err)
		}
	}
	if missing == nil {
		askSlurm(ctx, cluster, &f, note)
	}
	if f.Groups == nil {
		for _, p := range cluster.Daemons("slurmctld") {
			f.Nodes, f.Jobs, err = cluster.Counts(ctx, &p)
			note("the metrics of "+p.Name, err)
		}
	}
	return overview.New(f), nil
}

// askSlurm has the states of nodes and jobs.
func askSlurm(ctx context.Context, cluster *kube.Cluster, f *overview.Facts, note func(string, error)) {
	asker, _, err := cluster.Asker(ctx)
	note("slurmctld", err)
	if err != nil {
		return
	}
	f.Groups, err = slurm.Groups(ctx, asker)
	note("the nodes", err)
	if err == nil {
		f.Jobs, err = slurm.JobCounts(ctx, asker)
		note("the jobs", err)
	}
}

// agentOf asks a pod's agent: all that it knows, or what it tells everybody, with the error that made the difference.
func agentOf(ctx context.Context, cluster *kube.Cluster, p *corev1.Pod, public bool) (*slurm.Agent, error) {
	var err error
	if !public {
		var agent *slurm.Agent
		if agent, err = slurm.AgentOf(ctx, cluster.Inside(p)); err == nil {
			return agent, nil
		}
	}
	agent, other := cluster.Public(ctx, p)
	if other != nil {
		return nil, errors.Join(err, other)
	}
	return agent, err
}
