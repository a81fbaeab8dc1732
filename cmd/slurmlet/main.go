// Slurmlet is the agent: PID 1 of a Slurm container. docs/reference has its
// settings, its commands and its exit statuses.
package main

import (
	"fmt"
	"os"
	"syscall"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/pod/pid1"
)

// version is set by the linker.
var version = "development"

const usage = `usage: slurmlet slurmctld|slurmd|login|slurmdbd|slurmrestd
                                     run the role's daemon as PID 1 of its container
       slurmlet status [-o json]     what the agent in this container is doing
       slurmlet probe startup|readiness|liveness
                                     what a kubelet's probe wants to know, from the agent's socket
       slurmlet drain [-reason TEXT] [-wait]
                                     keep new jobs from this node; wait until none runs on it
       slurmlet resume               take the node back from "slurmlet drain"
       slurmlet deadline DURATION|TIME
                                     the pod is killed then: jobs that still run are requeued before
       slurmlet reload               try the configuration as it is now, and wait until it is live or refused
       slurmlet check [-o text|json|sarif|github] [-slurm-version V] [-here] [-agent] FILE|DIR|-...
                                     what is wrong with slurm.conf and the files of its family
       slurmlet diff                 what the configuration's sources hold beside what is live
       slurmlet accounts diff|apply [-prune] [-confirm N] [-cluster NAME] [-record FILE] FILE|-
                                     what slurmdbd has beside a file of accounts, QOS, users and limits; make it so
       slurmlet jwks [-expire DURATION] KEY...
                                     a slurm.jwks of keys such as slurm.key, each named after its file; the first signs
       slurmlet install DIR          copy this program into a directory, for a container whose image lacks it
       slurmlet version
`

func main() {
	if program, dir := runAs(); program != "" {
		os.Exit(runProgram(program, dir))
	}
	if program, dir := holdProgram(); program != "" {
		os.Exit(runHold(program, dir))
	}
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(agent.ExitUsage)
	}
	if _, err := agent.ParseRole(os.Args[1]); err != nil {
		pid1.Deafen(func(s os.Signal) { os.Exit(128 + int(s.(syscall.Signal))) })
	}
	switch command, args := os.Args[1], os.Args[2:]; command {
	case "status":
		os.Exit(status(args))
	case "probe":
		os.Exit(probe(args))
	case "drain":
		os.Exit(drain(args))
	case "resume":
		os.Exit(resume(args))
	case "deadline":
		os.Exit(deadline(args))
	case "diff":
		os.Exit(diff(args))
	case "reload":
		os.Exit(reload(args))
	case "check":
		os.Exit(checkFiles(args))
	case "accounts":
		os.Exit(accountsCommand(args))
	case "jwks":
		os.Exit(jwks(args))
	case "install":
		os.Exit(install(args))
	case "version", "--version":
		fmt.Println("slurmlet", version)
	case "help", "-h", "--help":
		fmt.Print(usage)
	default:
		os.Exit(run(command, args))
	}
}

func misused(err error) int {
	fmt.Fprintf(os.Stderr, "slurmlet: %v\n%s", err, usage)
	return agent.ExitUsage
}
