package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/slurmlet/slurmlet/kubectl-slurm/kube"
	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
	"github.com/slurmlet/slurmlet/kubectl-slurm/why"
)

// daemons are the roles that a word may mean.
var daemons = []string{"slurmctld", "slurmdbd", "slurmrestd", "login"}

func newWhy(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:   "why JOB|NODE|POD|ROLE",
		Short: "Say why a job waits or a node gets no jobs, and what ends that",
		Long: `Say why a job waits, or why a node or another pod of the cluster does not work, in plain words, with the
commands that end that. It asks slurmctld, slurmlet's agents and Kubernetes. Where they do not tell the cause, it
says so, and shows what is known.`,
		Example:           "  kubectl slurm why 4711\n  kubectl slurm why slurm-cpu-0\n  kubectl slurm why slurmctld",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.completeNodes,
		RunE: func(c *cobra.Command, args []string) error {
			cluster, err := o.find(c.Context())
			if err != nil {
				return err
			}
			answer, runner, err := explain(c.Context(), cluster, args[0])
			if err != nil {
				return err
			}
			runner.Cluster = o.cluster
			return o.write(c.OutOrStdout(), answer, func(w io.Writer) error { answer.WriteText(w, runner); return nil })
		},
	}
	o.addOutput(c)
	return c
}

// explain asks about a job, a node, a pod or a role.
func explain(ctx context.Context, cluster *kube.Cluster, word string) (why.Answer, why.Runner, error) {
	runner := why.Runner{Namespace: cluster.Namespace}
	if slices.Contains(daemons, word) {
		if pods := cluster.Daemons(word); len(pods) > 0 {
			word = kube.HostName(&pods[0])
		}
	}
	asker, pod, err := cluster.Asker(ctx)
	if err != nil {
		asker = absent{err}
	} else {
		runner.Slurm = []string{"kubectl", "exec", "-n", cluster.Namespace, pod.Name, "-c", kube.Container(pod), "--"}
	}
	world := cluster.World(asker)
	var facts why.Facts
	if why.IsJob(word) {
		facts, err = why.GatherJob(ctx, world, word, time.Now())
		if err != nil {
			return downInstead(ctx, cluster, world, word, err, runner)
		}
	} else {
		facts, err = why.GatherNode(ctx, world, word, time.Now())
		if err == nil && facts.Node == nil && facts.Pods[word] == nil {
			if near := didYouMean(word, nodeNames(ctx, cluster, asker)); near != "" {
				return why.Answer{}, runner, fmt.Errorf("neither Slurm nor Kubernetes knows a node %s.%s", word, near)
			}
		}
	}
	return why.Judge(facts), runner, err
}

// downInstead answers for a job that nothing could be asked about: with why slurmctld does not answer, if that is why.
func downInstead(ctx context.Context, cluster *kube.Cluster, world *kube.World, job string, err error, runner why.Runner) (why.Answer, why.Runner, error) {
	if _, is := errors.AsType[*kube.MissingRight](err); is {
		return why.Answer{}, runner, err
	}
	if errors.Is(err, why.ErrNoJob) {
		ids, _ := slurm.JobIDs(ctx, world)
		return why.Answer{}, runner, fmt.Errorf("%w.%s", err, didYouMean(job, ids))
	}
	for _, p := range cluster.Daemons("slurmctld") {
		if kube.Ready(&p) {
			continue
		}
		facts, gone := why.GatherNode(ctx, world, kube.HostName(&p), time.Now())
		if gone != nil {
			return why.Answer{}, runner, gone
		}
		answer := why.Judge(facts)
		answer.About = fmt.Sprintf("slurmctld cannot be asked about job %s. %s", job, answer.About)
		return answer, runner, nil
	}
	return why.Answer{}, runner, err
}

// absent is the Asker where nobody can ask slurmctld.
type absent struct{ why error }

func (a absent) Ask(context.Context, ...string) (string, error) { return "", a.why }

// nodeNames are the names of pods, and of the nodes that Slurm knows.
func nodeNames(ctx context.Context, cluster *kube.Cluster, asker slurm.Asker) (names []string) {
	pods, _ := cluster.All(ctx)
	for i := range pods {
		names = append(names, kube.HostName(&pods[i]))
	}
	groups, _ := slurm.Groups(ctx, asker)
	for i := range groups {
		names = append(names, groups[i].Names()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// node is the pod of a node's name.
func node(ctx context.Context, cluster *kube.Cluster, name string) (*corev1.Pod, error) {
	p, err := cluster.Pod(ctx, name)
	if err == nil && p == nil {
		var names []string
		pods, _ := cluster.All(ctx)
		for i := range pods {
			names = append(names, kube.HostName(&pods[i]))
		}
		err = fmt.Errorf("no pod of the cluster %s has the name %s.%s", cluster.Name, name, didYouMean(name, names))
	}
	return p, err
}

// completeNodes completes the names of pods.
func (o *options) completeNodes(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cluster, err := o.find(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	pods, err := cluster.All(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := make([]string, len(pods))
	for i := range pods {
		names[i] = kube.HostName(&pods[i])
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
