package commands

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/slurmlet/slurmlet/kubectl-slurm/kube"
)

func newQueue(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:   "queue",
		Short: "Show the namespace's pods in Slurm's queue",
		Long: `Show the pods of the namespace that wait in Slurm's queue or have a node of Slurm's, the oldest first: the Slurm job
and node, and what slurmlet's controller has said last of the pod.

The namespace is that of the pods, with the label slurmlet.dev/bridge, and not that of Slurm's cluster. The command needs
the right to list its pods. The reasons are events, which Kubernetes keeps for an hour.`,
		Example: "  kubectl slurm queue -n team",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			answer := queueAnswer{Namespace: client.Namespace, now: time.Now()}
			var missing error
			if answer.Pods, missing, err = client.Queue(c.Context()); err != nil {
				return err
			}
			if missing != nil {
				answer.Unknown = append(answer.Unknown, missing.Error())
			}
			return o.write(c.OutOrStdout(), answer, answer.writeText)
		},
	}
	o.addOutput(c)
	return c
}

// queueAnswer is what the command prints.
type queueAnswer struct {
	Namespace string           `json:"namespace"`
	Pods      []kube.QueuedPod `json:"pods"`
	Unknown   []string         `json:"unknown,omitempty"`
	now       time.Time
}

func (a queueAnswer) writeText(w io.Writer) error {
	if len(a.Pods) == 0 {
		_, err := fmt.Fprintf(w, "namespace %s has no pod in Slurm's queue\n", a.Namespace)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "POD\tSTATE\tJOB\tNODE\tAGE\tLAST SAID")
	for _, p := range a.Pods {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.State, cmp.Or(p.Job, "-"), cmp.Or(p.Node, "-"),
			duration.HumanDuration(a.now.Sub(p.Made)), cmp.Or(p.Said, "-"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, one := range a.Unknown {
		fmt.Fprintf(w, "\nnot known: %s\n", one)
	}
	return nil
}
