package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/slurmlet/slurmlet/kubectl-slurm/kube"
)

// userName is one that su takes for no option.
var userName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]*$`)

func newLogin(o *options) *cobra.Command {
	var pod string
	c := &cobra.Command{
		Use:   "login [USER] [-- COMMAND...]",
		Short: "Open a shell in a login pod, as a user",
		Long: `Open a shell in a login pod, as USER, or as the user of the pod's container, root. It goes through kubectl exec, so
it needs no key and no way to port 22, and the agent counts it as no session: the pod's end does not wait for it.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			user, command, err := userAnd(c, args)
			if err != nil {
				return err
			}
			cluster, err := o.find(c.Context())
			if err != nil {
				return err
			}
			p, err := loginPod(c.Context(), cluster, pod)
			if err != nil {
				return err
			}
			if user != "" && len(command) > 0 {
				command = append([]string{"runuser", "-u", user, "--"}, command...)
			} else if user != "" {
				command = []string{"su", "--login", user}
			}
			return shell(c, cluster, p, command)
		},
	}
	c.Flags().StringVar(&pod, "pod", "", "Name of a login pod, if there are several")
	return c
}

// userAnd divides the arguments at the --.
func userAnd(c *cobra.Command, args []string) (user string, command []string, err error) {
	before := args
	if at := c.ArgsLenAtDash(); at >= 0 {
		before, command = args[:at], args[at:]
	}
	switch {
	case len(before) > 1:
		return "", nil, errors.New("want one user, and a command after --")
	case len(before) == 1 && !userName.MatchString(before[0]):
		return "", nil, fmt.Errorf("%q is no user's name", before[0])
	case len(before) == 1:
		user = before[0]
	}
	return user, command, nil
}

// loginPod is the one of the name, or the first that is Ready.
func loginPod(ctx context.Context, cluster *kube.Cluster, name string) (*corev1.Pod, error) {
	if name != "" {
		return node(ctx, cluster, name)
	}
	pods := cluster.Daemons("login")
	for i := range pods {
		if kube.Ready(&pods[i]) {
			return &pods[i], nil
		}
	}
	if len(pods) == 0 {
		return nil, fmt.Errorf("the cluster %s has no login pod", cluster.Name)
	}
	return nil, fmt.Errorf("no login pod of the cluster %s is Ready: kubectl slurm why %s says why", cluster.Name, pods[0].Name)
}

func newSSH(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "ssh NODE [-- COMMAND...]",
		Short: "Open a shell in a node's pod",
		Long: `Open a shell in the pod of a node, or run a command there. It goes through kubectl exec, as root of the container,
and needs no sshd.`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: o.completeNodes,
		RunE: func(c *cobra.Command, args []string) error {
			cluster, err := o.find(c.Context())
			if err != nil {
				return err
			}
			p, err := node(c.Context(), cluster, args[0])
			if err != nil {
				return err
			}
			return shell(c, cluster, p, args[1:])
		},
	}
}

// anyShell is bash, or sh in an image without it.
var anyShell = []string{"/bin/sh", "-c", "if command -v bash >/dev/null; then exec bash -l; else exec sh -l; fi"}

// shell runs a command in a pod, with a terminal if there is one here. Without a command it runs a shell.
func shell(c *cobra.Command, cluster *kube.Cluster, p *corev1.Pod, command []string) error {
	s := kube.Streams{In: os.Stdin, Out: c.OutOrStdout(), Err: c.ErrOrStderr()}
	if len(command) == 0 {
		command = anyShell
	}
	here := int(os.Stdin.Fd())
	if !term.IsTerminal(here) || !term.IsTerminal(int(os.Stdout.Fd())) {
		return cluster.Run(c.Context(), p, s, command...)
	}
	before, err := term.MakeRaw(here)
	if err != nil {
		return fmt.Errorf("cannot use the terminal: %w", err)
	}
	defer func() { _ = term.Restore(here, before) }() // the terminal may be gone
	sizes := newSizes(here)
	defer sizes.stop()
	s.TTY, s.Sizes = true, sizes
	return cluster.Run(c.Context(), p, s, command...)
}

// sizes tell of the terminal's.
type sizes struct {
	fd      int
	changes chan os.Signal
	done    chan struct{}
}

func newSizes(fd int) *sizes {
	s := &sizes{fd, make(chan os.Signal, 1), make(chan struct{})}
	s.changes <- syscall.SIGWINCH
	signal.Notify(s.changes, syscall.SIGWINCH)
	return s
}

func (s *sizes) stop() {
	signal.Stop(s.changes)
	close(s.done)
}

// Next waits for a change; nil is the end.
func (s *sizes) Next() *remotecommand.TerminalSize {
	select {
	case <-s.changes:
	case <-s.done:
		return nil
	}
	width, height, err := term.GetSize(s.fd)
	if err != nil {
		return nil
	}
	return &remotecommand.TerminalSize{Width: uint16(width), Height: uint16(height)}
}
