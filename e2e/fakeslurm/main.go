// Command fakeslurm plays slurmctld, slurmd and Slurm's commands for the tests of cmd/slurmlet, by the name that it is called by. Its stage is the
// directory above its own: what it does is written to the file journal there, and files there choose how it behaves:
//
//	container
//	  cgroup/         the files of /sys/fs/cgroup
//	slurm daemons
//	  exit-at-start   exit with status 1 instead of starting
//	  chatty          say 10,000 lines at the start
//	  young           do not catch signals yet
//	  mute            never send READY
//	  barrier         send BARRIER after every notification and wait until it is released, as Slurm does from 25.11 on
//	  hold            as long as it is there: stand still in the middle of a hand-over
//	  straddle        the successor starts in one second of the clock and takes over in another
//	  stubborn        ignore SIGTERM
//	  hold-stop       as long as it is there: do not end after SIGTERM
//	  stranger        let a child claim to be the main process
//	  late            as long as it is there: slurmctld does not see slurmd's registration
//	  keeps-extra     an Extra that the record has stays, as from 25.05 on
//	  lost-at-start   slurmctld's table is full: only a successor's registration makes a record
//	  -f slurm.conf   with a line that has "nosuch" in it: exit with status 1 instead of starting
//	scontrol, sinfo, squeue, scancel
//	  node.json       the node record
//	  down            slurmctld cannot be reached
//	  jobs/5          job 5, which runs on the node, or waits, in a partition
//	  spool/n1_5.0    the socket of a step: as long as one of its is there, a job that was ended is COMPLETING
//	  busy            jobs run on the node of which no more is known
//	  reserved        a reservation holds the node
//	  named           the pending job 7 names the node
//	  config          the cluster's configuration
//	  silent          a reconfigure gets no answer, though slurmctld reconfigures
//	  nodes.json      all node records
//	  nodes           all node records, for slurmctld's agent
//	  configuring     the numbers of jobs that are CONFIGURING
//	  unsure          whoever sets a node DOWN gets no answer
//	  nameless        slurmctld does not name the jobs of nodes
//	  suspended       a host list: suspended jobs hold these nodes
//	sdiag
//	  launching       slurmctld waits for a node's answer
//	  mute            there are no statistics
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

var (
	name  = filepath.Base(os.Args[0])
	stage = filepath.Dir(filepath.Dir(os.Args[0]))
	began = time.Now()
)

func main() {
	switch name {
	case "container":
		must(container(os.Args[1:]))
	case "slurmctld", "slurmd":
		if slices.Contains(os.Args, "-V") {
			fmt.Println("slurm-wlm 26.05.5")
			return
		}
		daemon()
	case "scontrol":
		scontrol(os.Args[1:])
	case "sinfo", "squeue", "scancel":
		note("%s", strings.Join(os.Args[1:], " "))
		if chosen("down") {
			fail(name + ": error: Unable to contact slurm controller (connect failure)")
		}
		switch name {
		case "sinfo":
			sinfo(os.Args[1:])
		case "squeue":
			squeue(os.Args[1:])
		}
	case "sdiag":
		sdiag()
	case "connect":
		connect(os.Args[1], os.Args[2])
	case "stranger":
		notify("MAINPID=" + fmt.Sprint(os.Getpid()))
	default:
		panic("no such part: " + name)
	}
}

func chosen(file string) bool {
	_, err := os.Stat(filepath.Join(stage, file))
	return err == nil
}

// stall stands still as long as the file is there.
func stall(file string) {
	for chosen(file) {
		<-time.After(5 * time.Millisecond)
	}
}

// note writes a line into the journal.
func note(format string, args ...any) {
	f, err := os.OpenFile(filepath.Join(stage, "journal"), os.O_APPEND|os.O_WRONLY, 0)
	must(err)
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s[%d] %s\n", name, os.Getpid(), fmt.Sprintf(format, args...))
	must(err)
}

// say logs as Slurm's daemons do under --systemd.
func say(format string, args ...any) {
	fmt.Fprintln(os.Stderr, name+": "+fmt.Sprintf(format, args...))
}

func fail(lines ...string) {
	fmt.Fprintln(os.Stderr, strings.Join(lines, "\n"))
	os.Exit(1)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
