package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// The file "nodes" has all node records of a slurmctld: a name, a state as scontrol prints it, and a
// reason, on a line each.

type listed struct{ name, state, reason string }

func listedNodes() (all []listed) {
	text, err := os.ReadFile(filepath.Join(stage, "nodes"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must(err)
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(fields) > 1 {
			all = append(all, listed{fields[0], fields[1], strings.Join(fields[2:], "")})
		}
	}
	return all
}

// changeListed replaces the named ones by what f makes of them; without a state they are gone.
func changeListed(names string, f func(listed) listed) {
	list, err := hostlist.Parse(names)
	must(err)
	named := slices.Collect(list.All())
	locked(func() {
		var text strings.Builder
		for _, n := range listedNodes() {
			if slices.Contains(named, n.name) {
				n = f(n)
			}
			if n.state != "" {
				fmt.Fprintf(&text, "%s %s %s\n", n.name, n.state, n.reason)
			}
		}
		path := filepath.Join(stage, "nodes")
		must(os.WriteFile(path+".new", []byte(text.String()), 0o644))
		must(os.Rename(path+".new", path))
	})
}

// showListed prints them in lines. Their slurmds began long ago.
func showListed() {
	all := listedNodes()
	if len(all) == 0 {
		fmt.Println("No nodes in the system")
	}
	for _, n := range all {
		reason := ""
		if n.reason != "" {
			reason = " Reason=" + n.reason + " [root@1000]"
		}
		fmt.Printf(
			"NodeName=%s CoresPerSocket=1 CPUAlloc=0 CPUEfctv=1 CPUTot=1 CPULoad=0.00 AvailableFeatures=(null) "+
				"ActiveFeatures=(null) Gres=(null) NodeAddr=%[1]s NodeHostName=%[1]s "+
				"RealMemory=300 AllocMem=0 FreeMem=N/A Sockets=1 Boards=1 State=%s ThreadsPerCore=1 TmpDisk=0 "+
				"Weight=1 Owner=N/A MCS_label=N/A Partitions=all "+
				"BootTime=1000 SlurmdStartTime=1000 LastBusyTime=1000 ResumeAfterTime=None%s "+
				"Extra={\"slurmlet\":\"x\"}\n", n.name, n.state, reason)
	}
}

func holdsJobs(n listed) bool {
	return strings.HasPrefix(n.state, "ALLOCATED") || strings.HasPrefix(n.state, "MIXED") || strings.Contains(n.state, "COMPLETING")
}

func deleteListed(names string) {
	var kept []string
	changeListed(names, func(n listed) listed {
		if holdsJobs(n) {
			kept = append(kept, n.name)
		} else {
			n.state = ""
		}
		return n
	})
	switch {
	case len(kept) == 0:
	case kept[0] == names:
		fail("slurm_delete_node error: Requested nodes are busy")
	default:
		fail("slurm_delete_node error: failed to delete nodes " + strings.Join(kept, ","))
	}
}

// updateListed drains nodes, or sets them DOWN, which takes their jobs off.
func updateListed(names string, settings []string) {
	changeListed(names, func(n listed) listed {
		for _, setting := range settings {
			switch reason, is := strings.CutPrefix(setting, "reason="); {
			case is:
				n.reason = reason
			case setting == "state=drain" && !strings.Contains(n.state, "DRAIN"):
				n.state += "+DRAIN"
			case setting == "state=down":
				_, flags, _ := strings.Cut(strings.ReplaceAll(n.state, "+COMPLETING", ""), "+")
				n.state = strings.Trim("DOWN+"+flags, "+")
				failJobs()
			}
		}
		return n
	})
	if chosen("unsure") && slices.Contains(settings, "state=down") {
		fail("slurm_update error: Socket timed out on send/recv operation")
	}
}

// suspended are jobs on the nodes that the file of that name has.
func suspended(states bool) {
	text, err := os.ReadFile(filepath.Join(stage, "suspended"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	must(err)
	if states {
		fmt.Println("                 7  S")
		return
	}
	fmt.Println(string(text))
}
