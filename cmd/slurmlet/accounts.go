package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/accounts"
	"github.com/slurmlet/slurmlet/internal/slurmctld/accounts/planner"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// accountsCommand compares slurmdbd with a file ("diff", whose status is 1 when they differ), or brings it into step
// ("apply").
func accountsCommand(args []string) int {
	if len(args) == 0 || args[0] != "diff" && args[0] != "apply" {
		return misused(fmt.Errorf("accounts: want diff or apply, and a file, not %q", args))
	}
	flags := flag.NewFlagSet("accounts "+args[0], flag.ContinueOnError)
	cluster := flags.String("cluster", "", "the `name` of the cluster (default: slurmctld's ClusterName)")
	record := flags.String("record", "", "the `file` that says what was made (default: that of slurmctld's agent, else FILE.made)")
	prune := flags.Bool("prune", false, "remove what the file does not have and nobody has made with it, too")
	confirm := flags.Int("confirm", 0, "how many entities are to be removed, where that needs a confirmation")
	if err := flags.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return agent.ExitOK
		}
		return agent.ExitUsage
	}
	if flags.NArg() != 1 {
		return misused(fmt.Errorf("accounts: want one file, or - for standard input, not %q", flags.Args()))
	}
	name := flags.Arg(0)
	content, err := readAccounts(name)
	if err != nil {
		return failed(err)
	}
	file, findings := planner.Parse(name, content)
	if err := findings.Err(); err != nil {
		return failed(err)
	}
	ctx, stop := ossignal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	sync, err := newSync(ctx, *cluster, cmp.Or(*record, recordOf(name)))
	if err != nil {
		return failed(err)
	}
	if args[0] == "diff" {
		return diffAccounts(ctx, sync, &file, *prune)
	}
	return applyAccounts(ctx, sync, &file, *prune, *confirm)
}

// failed prints an error. Its status is that of a bad file, or of a slurmdbd that does not answer: that of a difference is 1.
func failed(err error) int {
	fmt.Fprintln(os.Stderr, "slurmlet:", err)
	if _, bad := errors.AsType[slurmconf.Findings](err); bad || errors.Is(err, accounts.ErrConfirm) {
		return agent.ExitConfig
	}
	return agent.ExitUnavailable
}

func readAccounts(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(os.Stdin, planner.MostFile+1))
	}
	return os.ReadFile(name)
}

// recordOf is the record of slurmctld's agent where its volume is, so that people and the agent know of each other.
func recordOf(name string) string {
	dir := filepath.Join(cmp.Or(os.Getenv("SLURMLET_STATE_DIR"), agent.DefaultStateDir), "slurmlet")
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return filepath.Join(dir, accounts.RecordName)
	}
	if name == "-" {
		return accounts.RecordName
	}
	return name + ".made"
}

func newSync(ctx context.Context, cluster, record string) (accounts.Sync, error) {
	scontrol, _, _, err := slurm.Find(ctx)
	if err != nil {
		return accounts.Sync{}, err
	}
	client := slurm.Scontrol{Path: scontrol}
	if cluster == "" {
		conf, err := client.Config(ctx)
		if err != nil {
			return accounts.Sync{}, fmt.Errorf("cannot find out the cluster's name (-cluster gives it): %w", err)
		}
		cluster = strings.ToLower(conf["ClusterName"])
	}
	return accounts.Sync{Client: client, Cluster: cluster, Record: record}, nil
}

func diffAccounts(ctx context.Context, sync accounts.Sync, file *planner.File, prune bool) int {
	plan, err := sync.Diff(ctx, file, prune)
	if err != nil {
		return failed(err)
	}
	for _, step := range plan.Steps() {
		fmt.Println(step.Words)
		fmt.Println("    sacctmgr -i", step.Command)
	}
	for _, why := range plan.Keeps {
		fmt.Println(why)
	}
	if plan.Confirm {
		fmt.Printf("%d are removed: apply needs -confirm %d\n", plan.Removals, plan.Removals)
	}
	if plan.Empty() {
		fmt.Println("nothing to do: slurmdbd has what the file has")
		return agent.ExitOK
	}
	return agent.ExitFailure
}

func applyAccounts(ctx context.Context, sync accounts.Sync, file *planner.File, prune bool, confirm int) int {
	o, err := sync.Apply(ctx, file, prune, confirm)
	for _, step := range o.Done {
		fmt.Println("done:", step.Words)
	}
	for _, why := range o.Keeps {
		fmt.Println(why)
	}
	for _, step := range o.Left {
		fmt.Println("not done:", step.Words)
	}
	for _, why := range o.Why {
		fmt.Fprintln(os.Stderr, "slurmlet:", why)
	}
	switch {
	case err != nil:
		return failed(err)
	case len(o.Left) > 0:
		fmt.Fprintln(os.Stderr, "slurmlet: some changes were not made; the next apply goes on with them")
		return agent.ExitFailure
	case o.Empty():
		fmt.Println("nothing to do: slurmdbd has what the file has")
	}
	return agent.ExitOK
}
