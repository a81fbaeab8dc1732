package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/rootfs"
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

// runBundle runs a task of `srun --container`, as oci.conf's RunTimeRun names it, and returns its status.
func runBundle(verb string, args []string, stderr io.Writer) int {
	var status int
	var err error
	if verb == rootfs.Bundled {
		status, err = rootfs.RunBundled()
	} else {
		status, err = runOCI(args)
	}
	if err != nil {
		fmt.Fprintf(stderr, "slurmlet: %v\n", err)
		return max(status, exitcode.Failure)
	}
	return status
}

func runOCI(args []string) (int, error) {
	if len(args) == 0 || args[0] != "run" {
		return 0, fmt.Errorf("oci %q: want oci run: a step's container ends with its task, so that nothing creates, starts, kills or "+
			"deletes one (oci.conf needs IgnoreFileConfigJson=true)", args)
	}
	set := flag.NewFlagSet("oci run", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	var r rootfs.BundleRun
	set.StringVar(&r.Bundle, "bundle", "", "")
	set.StringVar(&r.Environment, "environment", "", "")
	set.StringVar(&r.Step, "step", "", "")
	set.StringVar(&r.Store, "store", defaultStore, "")
	if err := set.Parse(args[1:]); err != nil {
		return 0, fmt.Errorf("cannot read the options: %w", err)
	}
	if r.Bundle == "" || r.Environment == "" {
		return 0, errors.New("oci run: want --bundle=%b and --environment=%e in oci.conf's RunTimeRun")
	}
	return r.Run()
}
