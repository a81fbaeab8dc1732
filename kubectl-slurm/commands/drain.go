package commands

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/kubectl-slurm/kube"
	"github.com/slurmlet/slurmlet/kubectl-slurm/overview"
	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
)

func newDrain(o *options) *cobra.Command {
	var reason string
	var wait bool
	c := &cobra.Command{
		Use:   "drain NODE --reason TEXT",
		Short: "Keep new jobs from a node",
		Long: `Keep new jobs from a node, by slurmlet drain in its pod, or by scontrol if the node has no pod. The reason ends
with your name, as the API server knows you.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.completeNodes,
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			cluster, err := o.find(ctx)
			if err != nil {
				return err
			}
			p, asker, err := whereNode(ctx, cluster, args[0])
			if err != nil {
				return err
			}
			full := oneLine(reason)
			if caller := cluster.Caller(ctx); caller != "" {
				full += " (" + oneLine(caller) + ")"
			}
			if p == nil {
				if wait {
					return fmt.Errorf("cannot wait for the jobs of %s: it has no pod", args[0])
				}
				_, err = asker.Ask(ctx, "scontrol", "update", "nodename="+args[0], "state=drain", "reason="+reasons.ByCommand+full)
				if err == nil {
					fmt.Fprintf(c.OutOrStdout(), "the node is drained: %s\n", full)
				}
				return err
			}
			command := []string{"slurmlet", "drain", "-reason", full}
			if wait {
				command = append(command, "-wait")
			}
			return cluster.Run(ctx, p, kube.Streams{Out: c.OutOrStdout(), Err: c.ErrOrStderr()}, command...)
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "Why; sinfo -R shows it")
	c.Flags().BoolVar(&wait, "wait", false, "Wait until no job runs on the node")
	_ = c.MarkFlagRequired("reason")
	return c
}

func newResume(o *options) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "resume NODE",
		Short: "Give a node jobs again",
		Long: `Give a drained node jobs again, and say whose drain that was. A drain that slurmlet itself has set ends by itself,
when what it is for is over; --force ends it before.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.completeNodes,
		RunE: func(c *cobra.Command, args []string) error {
			cluster, err := o.find(c.Context())
			if err != nil {
				return err
			}
			return resume(c, cluster, args[0], force)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "End a drain that slurmlet itself has set, too")
	return c
}

// whereNode is a node's pod, nil where it has none that runs, and the Asker of slurmctld.
func whereNode(ctx context.Context, cluster *kube.Cluster, name string) (*corev1.Pod, slurm.Asker, error) {
	asker, _, err := cluster.Asker(ctx)
	if err != nil {
		return nil, nil, err
	}
	p, err := cluster.Pod(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if p != nil && p.Status.Phase == corev1.PodRunning {
		return p, asker, nil
	}
	record, err := slurm.FindNode(ctx, asker, name)
	if err == nil && record == nil {
		err = fmt.Errorf("slurmctld knows no node %s.%s", name, didYouMean(name, nodeNames(ctx, cluster, asker)))
	}
	return nil, asker, err
}

// resume lifts a drain, unless it is slurmlet's own.
func resume(c *cobra.Command, cluster *kube.Cluster, name string, force bool) error {
	ctx := c.Context()
	p, asker, err := whereNode(ctx, cluster, name)
	if err != nil {
		return err
	}
	record, err := slurm.FindNode(ctx, asker, name)
	switch {
	case err != nil:
		return err
	case record == nil:
		return fmt.Errorf("slurmctld knows no node %s.%s", name, didYouMean(name, nodeNames(ctx, cluster, asker)))
	case isInService(record):
		tellInService(c, record)
		return nil
	}
	owner := reasons.Of(record.Reason)
	whose := fmt.Sprintf("%s was set %s by %s: %s", name, strings.Join(record.State, "+"), overview.Owner(record.Reason, record.User), oneLine(record.Reason))
	if owner.IsSlurmlet() && !force {
		return fmt.Errorf("%s\nslurmlet ends that itself, when what it is for is over: kubectl slurm why %s says what that is. --force ends it now", whose, name)
	}
	if owner == reasons.Command && p != nil {
		return cluster.Run(ctx, p, kube.Streams{Out: c.OutOrStdout(), Err: c.ErrOrStderr()}, "slurmlet", "resume")
	}
	if _, err := asker.Ask(ctx, "scontrol", "update", "nodename="+name, "state=resume"); err != nil {
		now, failed := slurm.FindNode(ctx, asker, name)
		if failed != nil || now == nil || !isInService(now) {
			return err
		}
		tellInService(c, now) // a registration was quicker (ReturnToService), and slurmctld resumes no such node
		return nil
	}
	fmt.Fprintf(plain{c.OutOrStdout()}, "%s\nit is resumed\n", whose)
	return nil
}

// isInService says whether nobody keeps jobs from a node.
func isInService(n *slurm.Node) bool { return !n.Is("DRAIN", "DOWN", "FAIL") }

func tellInService(c *cobra.Command, n *slurm.Node) {
	fmt.Fprintf(c.OutOrStdout(), "%s is %s: nobody keeps jobs from it\n", n.Name, strings.Join(n.State, "+"))
}

// oneLine has no control characters, which a reason may not bring into others' terminals.
func oneLine(text string) string {
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			return ' '
		}
		return c
	}, text))
}
