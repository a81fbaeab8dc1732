// Package commands are the verbs of kubectl slurm.
package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/slurmlet/slurmlet/kubectl-slurm/kube"
	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
)

// options are those of every command.
type options struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides *clientcmd.ConfigOverrides
	cluster   string
	output    string
}

// New is the command kubectl slurm.
func New(version string) *cobra.Command {
	o := &options{rules: clientcmd.NewDefaultClientConfigLoadingRules(), overrides: &clientcmd.ConfigOverrides{}}
	root := &cobra.Command{
		Use:   "kubectl-slurm",
		Short: "Slurm on Kubernetes, for its administrators",
		Long: `See how a cluster of Slurm's on Kubernetes stands, why a job or a node waits, and what ends that.

A command finds the cluster by the label slurmlet.dev/cluster of its pods. It needs no rights but yours, and
names the one that is missing. It reads with kubectl exec; status also works with a GET of the pods' /status.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl slurm"},
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("kubectl-slurm {{.Version}}\n")
	root.SuggestionsMinimumDistance = 2
	flags := root.PersistentFlags()
	flags.StringVar(&o.rules.ExplicitPath, "kubeconfig", "", "Path of the kubeconfig")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.ClusterName = clientcmd.FlagInfo{} // --cluster is Slurm's here
	clientcmd.BindOverrideFlags(o.overrides, flags, names)
	flags.StringVar(&o.cluster, "cluster", "", "Name of Slurm's cluster, if the namespace has several (its pods' label slurmlet.dev/cluster)")
	root.AddCommand(newStatus(o), newQueue(o), newWhy(o), newLogs(o), newLogin(o), newSSH(o), newDrain(o), newResume(o))
	_ = root.RegisterFlagCompletionFunc("namespace", cobra.NoFileCompletions)
	return root
}

// client is a connection as the flags say.
func (o *options) client() (*kube.Client, error) {
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(o.rules, o.overrides)
	rest, err := config.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	namespace, _, err := config.Namespace()
	if err != nil {
		return nil, fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	return kube.NewClient(rest, namespace)
}

// find is the cluster that the flags mean.
func (o *options) find(ctx context.Context) (*kube.Cluster, error) {
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	return client.Find(ctx, o.cluster)
}

// addOutput gives a command the flag -o.
func (o *options) addOutput(c *cobra.Command) {
	c.Flags().StringVarP(&o.output, "output", "o", "text", "Form of the answer: text, json or yaml")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// write writes an answer in the form that -o says.
func (o *options) write(w io.Writer, value any, text func(io.Writer) error) error {
	w = plain{w}
	switch o.output {
	case "text":
		return text(w)
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(value)
	case "yaml":
		out, err := yaml.Marshal(value)
		if err == nil {
			_, err = w.Write(out)
		}
		return err
	}
	return fmt.Errorf("want -o text, json or yaml, not %q", o.output)
}

// plain is a writer that shows control characters of others, who may have put them into a reason or a job's name,
// instead of sending them to the terminal.
type plain struct{ to io.Writer }

func (p plain) Write(text []byte) (int, error) {
	shown := strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 {
			return '�'
		}
		return c
	}, string(text))
	_, err := io.WriteString(p.to, shown)
	return len(text), err
}

// Exit statuses.
const (
	exitFailed = 1
	exitUsage  = 64
)

// Run runs the program, and returns its exit status: that of a command in a pod, if one was run there for a person.
func Run(ctx context.Context, version string, args []string) int {
	root := New(version)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var refused *slurm.Refusal
	switch {
	case err == nil:
		return 0
	case errors.As(err, &refused) && refused.Said == "" && refused.Status > 0:
		return refused.Status // it has spoken for itself
	}
	fmt.Fprintln(os.Stderr, "kubectl slurm:", err)
	if strings.Contains(err.Error(), "unknown command") || strings.Contains(err.Error(), "unknown flag") || strings.Contains(err.Error(), "arg(s)") {
		return exitUsage
	}
	return exitFailed
}
