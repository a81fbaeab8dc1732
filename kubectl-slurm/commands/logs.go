package commands

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/slurmlet/slurmlet/kubectl-slurm/kube"
	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
	"github.com/slurmlet/slurmlet/kubectl-slurm/why"
)

// logging are the flags of logs.
type logging struct {
	follow, previous, raw bool
	tail                  int64
}

func newLogs(o *options) *cobra.Command {
	l := logging{}
	c := &cobra.Command{
		Use:   "logs ROLE|NODE|POD|JOB",
		Short: "Show the log of a daemon or a node, or what a job writes",
		Long: `Show the log of slurmctld, slurmdbd, slurmrestd, a login pod or a node, a line for each message, or what a batch
job has written to its standard output, from the node where its script runs.`,
		Example:           "  kubectl slurm logs slurmctld -f\n  kubectl slurm logs slurm-cpu-0 --previous\n  kubectl slurm logs 4711",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.completeNodes,
		RunE: func(c *cobra.Command, args []string) error {
			cluster, err := o.find(c.Context())
			if err != nil {
				return err
			}
			if why.IsJob(args[0]) {
				return l.job(c, cluster, args[0])
			}
			p, err := daemonOrNode(c.Context(), cluster, args[0])
			if err != nil {
				return err
			}
			return l.pod(c, cluster, p)
		},
	}
	c.Flags().BoolVarP(&l.follow, "follow", "f", false, "Go on as more is written")
	c.Flags().BoolVarP(&l.previous, "previous", "p", false, "Show the container before the present one")
	c.Flags().BoolVar(&l.raw, "raw", false, "Show the log's lines as they are, JSON objects")
	c.Flags().Int64Var(&l.tail, "tail", -1, "Show so many of the last lines; -1 shows all")
	return c
}

// daemonOrNode is the pod that a role, a node's name or a pod's name means.
func daemonOrNode(ctx context.Context, cluster *kube.Cluster, word string) (*corev1.Pod, error) {
	if !slices.Contains(daemons, word) {
		return node(ctx, cluster, word)
	}
	switch pods := cluster.Daemons(word); len(pods) {
	case 0:
		return nil, fmt.Errorf("the cluster %s has no pod of %s", cluster.Name, word)
	case 1:
		return &pods[0], nil
	default:
		names := make([]string, len(pods))
		for i := range pods {
			names[i] = pods[i].Name
		}
		return nil, fmt.Errorf("the cluster %s has several pods of %s: choose one: %s", cluster.Name, word, strings.Join(names, ", "))
	}
}

func (l *logging) pod(c *cobra.Command, cluster *kube.Cluster, p *corev1.Pod) error {
	o := corev1.PodLogOptions{Follow: l.follow, Previous: l.previous}
	if l.tail >= 0 {
		o.TailLines = &l.tail
	}
	from, err := cluster.Log(c.Context(), p, o)
	if err != nil {
		return err
	}
	defer from.Close()
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if !l.raw {
				line = readable(line)
			}
			if _, err := io.WriteString(plain{c.OutOrStdout()}, line); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read the log of pod %s: %w", p.Name, err)
		}
	}
}

// readable makes a line for people of an object of the agent's log.
func readable(line string) string {
	var o map[string]any
	if json.Unmarshal([]byte(line), &o) != nil || o["msg"] == nil {
		return line
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%v %v %v: %v", o["time"], o["level"], o["source"], o["msg"])
	var keys []string
	for key := range o {
		if !slices.Contains([]string{"time", "level", "source", "msg"}, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		fmt.Fprintf(&text, " %s=%v", key, o[key])
	}
	return text.String() + "\n"
}

// job shows a job's standard output, in the pod where its batch script runs or has run.
func (l *logging) job(c *cobra.Command, cluster *kube.Cluster, id string) error {
	ctx := c.Context()
	asker, _, err := cluster.Asker(ctx)
	if err != nil {
		return err
	}
	jobs, err := slurm.FindJobs(ctx, asker, id)
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		jobs, err = why.Forgotten(ctx, asker, id)
	}
	if err != nil {
		ids, _ := slurm.JobIDs(ctx, asker)
		return fmt.Errorf("%w.%s", err, didYouMean(id, ids))
	}
	j := &jobs[0]
	file := j.OutputFile()
	switch {
	case j.BatchHost == "":
		return fmt.Errorf("job %s has not begun, or has no batch script: it is %s", j.Label(), strings.Join(j.State, "+"))
	case file == "":
		return fmt.Errorf("job %s has no file for its standard output", j.Label())
	}
	p, err := node(ctx, cluster, j.BatchHost)
	if err != nil {
		return fmt.Errorf("the output of job %s was on %s: %w", j.Label(), file, err)
	}
	lines := "+1"
	if l.tail >= 0 {
		lines = strconv.FormatInt(l.tail, 10)
	}
	command := []string{"tail", "-n", lines}
	if l.follow {
		command = append(command, "-F")
	}
	return cluster.Run(ctx, p, kube.Streams{Out: plain{c.OutOrStdout()}, Err: plain{c.ErrOrStderr()}}, append(command, "--", file)...)
}
