package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// scontrol knows the few commands that the agent gives.
func scontrol(args []string) {
	note("%s", strings.Join(args, " "))
	if chosen("down") && strings.Join(args, " ") != "show hostnames a" {
		fail("scontrol: error: slurm_load_ctl_conf: Unable to contact slurm controller (connect failure)")
	}
	switch args[0] {
	case "--all":
		showListed()
		return
	case "--details": // show job: all of them are of this node
		fmt.Printf("JobId=%s JobName=x\n     Nodes=n1 CPU_IDs=0 Mem=10 GRES=\n", args[3])
		return
	}
	switch args[0] {
	case "ping":
		answer("pings", map[string]any{"hostname": "ctl", "responding": true, "mode": "primary"})
	case "reconfigure":
		reconfigure()
	case "show":
		show(args[1:])
	case "create": // a reservation: the journal has it
	case "delete":
		if strings.HasPrefix(args[1], "reservationname=") {
			return
		}
		if names, _ := strings.CutPrefix(args[1], "nodename="); chosen("nodes") {
			deleteListed(names)
			return
		}
		change(func(r *record) *record { return deleted(r, args[1]) })
	case "update":
		update(args[1:])
	case "requeue":
		requeue(args[2]) // requeue incomplete JOB
	}
}

func show(args []string) {
	switch args[0] {
	case "config":
		config()
	case "job":
		showJob(args[1])
	case "node":
		showNode(args[1])
	case "nodes":
		showNodes()
	case "hostnames":
		parseConf()
	case "reservation":
		answer("reservations")
	}
}

// reconfigure returns when slurmctld has, or has not.
func reconfigure() {
	_ = os.Remove(filepath.Join(stage, "reconfigured"))
	text, err := os.ReadFile(filepath.Join(stage, "slurmctld.pid"))
	must(err)
	pid, err := strconv.Atoi(string(text))
	must(err)
	must(unix.Kill(pid, unix.SIGHUP))
	if chosen("silent") {
		fail("slurm_reconfigure error: Socket timed out on send/recv operation")
	}
	for !chosen("reconfigured") {
		<-time.After(5 * time.Millisecond)
	}
	if word, _ := os.ReadFile(filepath.Join(stage, "reconfigured")); string(word) == "failed" {
		fail("slurm_reconfigure error: Unspecified error")
	}
}

// parseConf is Slurm's parser: it does not know the key Foo.
func parseConf() {
	text, err := os.ReadFile(os.Getenv("SLURM_CONF"))
	must(err)
	if strings.Contains(string(text), "Foo=") {
		fail("scontrol: error: _parse_next_key: Parsing error at unrecognized key: Foo",
			"scontrol: fatal: Unable to process configuration file")
	}
}

func showNodes() {
	text, err := os.ReadFile(filepath.Join(stage, "nodes.json"))
	if err != nil {
		answer("nodes")
		return
	}
	_, err = os.Stdout.Write(text)
	must(err)
}

// sdiag prints what slurmctld has to send the nodes.
func sdiag() {
	if chosen("mute") {
		fail("slurm_get_statistics: Unspecified error")
	}
	agents := 0
	if chosen("launching") {
		agents = 1
	}
	fmt.Printf(`{"statistics": {"agent_count": %d, "agent_queue_size": 0}, "errors": []}`, agents)
}

func update(settings []string) {
	id, ofJob := strings.CutPrefix(settings[0], "jobid=")
	if names, ofNodes := strings.CutPrefix(settings[0], "nodename="); ofNodes && chosen("nodes") {
		updateListed(names, settings[1:])
		return
	}
	if !ofJob {
		change(func(r *record) *record { return updated(r, settings) })
		return
	}
	changeJob(id, func(j *job) {
		for _, setting := range settings[1:] {
			if comment, found := strings.CutPrefix(setting, "admincomment="); found {
				j.AdminComment = comment
			}
		}
	})
}

func answer(kind string, elements ...any) {
	if elements == nil {
		elements = []any{}
	}
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{kind: elements, "errors": []any{}, "warnings": []any{}}))
}

func showNode(name string) {
	if shown := seen(name); shown != nil {
		answer("nodes", shown)
		return
	}
	answer("nodes")
}

// sinfo shows one node as far as it does, and a row without a node for the partition that has none.
func sinfo(args []string) {
	if slices.Contains(args, "--Format=StateComplete:|,NodeList:|") {
		showStates(args)
		return
	}
	name,
		_ := strings.CutPrefix(
		args[slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--nodes=") })], "--nodes=")
	r := seen(name)
	if r == nil {
		answer("sinfo", map[string]any{"nodes": map[string]any{"nodes": []string{}}, "resource_spec": map[string]any{"cpus": ""}})
		return
	}
	number := func(n int64) map[string]any { return map[string]any{"minimum": n, "maximum": n} }
	answer("sinfo", map[string]any{
		"node": map[string]any{"state": r.State}, "nodes": map[string]any{"nodes": []string{r.Name}},
		"cpus": number(int64(r.CPUs)), "sockets": number(int64(r.Sockets)), "cores": number(int64(r.Cores)),
		"threads": number(int64(r.Threads)),
		"memory":  number(r.RealMemory), "disk": number(r.TmpDisk), "weight": number(0),
		"resource_spec": map[string]any{"cpus": r.CPUSpecList},
		"reason":        map[string]any{"description": r.Reason}, "extra": r.Extra,
	})
}

// seen is the record as slurmctld shows it, nil for none.
func seen(name string) (shown *record) {
	change(func(r *record) *record {
		if r == nil || r.Name != name {
			return r
		}
		suspend(r)
		now := *r
		shown = &now
		switch jobs := jobsHere(); {
		case chosen("busy"), slices.ContainsFunc(jobs, func(j *job) bool { return j.is("RUNNING") }):
			shown.State = append([]string{"ALLOCATED"}, r.State[1:]...)
		case len(jobs) > 0:
			shown.State = append(slices.Clone(r.State), "COMPLETING")
		}
		return r
	})
	return shown
}

// config prints the cluster's configuration that a test has put there.
func config() {
	text, err := os.ReadFile(filepath.Join(stage, "config"))
	if err != nil {
		fail("slurm_load_ctl_conf error: Zero Bytes were transmitted or received")
	}
	_, err = os.Stdout.Write(text)
	must(err)
}

func deleted(r *record, what string) *record {
	switch {
	case r == nil || what != "nodename="+r.Name:
		fail("slurm_delete_node error: Invalid node name specified")
	case chosen("busy"), chosen("reserved"), len(jobsHere()) > 0:
		fail("slurm_delete_node error: Requested nodes are busy")
	}
	return nil
}

func updated(r *record, settings []string) *record {
	if r == nil {
		fail("slurm_update error: Invalid node name specified")
	}
	for _, setting := range settings {
		switch key, value, _ := strings.Cut(setting, "="); {
		case key == "reason":
			r.Reason = value
		case setting == "state=drain":
			r.State = append(r.State, "DRAIN")
		case setting == "state=down":
			r.State[0] = "DOWN"
			failJobs()
		case setting == "state=power_down_asap":
			powerDown(r, "DRAIN")
		case setting == "state=power_down_force":
			if !r.is("POWERING_DOWN") {
				requeueJobs()
			}
			powerDown(r)
		case setting == "state=resume":
			r.State = slices.DeleteFunc(r.State, func(s string) bool { return s == "DRAIN" })
			r.Reason = ""
		}
	}
	return r
}
