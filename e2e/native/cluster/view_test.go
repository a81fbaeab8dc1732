//go:build e2e

package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// questionLimit is how long a question may take here.
const questionLimit = 3 * time.Second

// collect asks as slurmctld's agent does, with the cluster's own commands.
func (w *world) collect() (*clusterview.View, error) {
	if w.collector == nil {
		bin := filepath.Join(native.Scratch, "bin")
		if err := os.Mkdir(bin, 0o755); err != nil {
			return nil, err
		}
		for _, program := range []string{"scontrol", "squeue", "sdiag"} {
			script := fmt.Sprintf("#!/bin/sh\nexec chroot %s /usr/bin/%s \"$@\"\n", w.Root, program)
			if err := os.WriteFile(filepath.Join(bin, program), []byte(script), 0o755); err != nil {
				return nil, err
			}
		}
		s := slurm.Scontrol{Path: filepath.Join(bin, "scontrol"), Env: append(clusterview.Env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin")}
		w.collector = clusterview.New(clusterview.Options{Stream: s.Stream, Timeout: func() time.Duration { return questionLimit }, Log: func(slog.Level, string, ...slog.Attr) {}})
	}
	if err := native.Within(limit, "the collector does not ask again", func() bool { return w.collector.Fresh() == nil }); err != nil {
		return nil, err // it leaves slurmctld in peace after each collection
	}
	return w.collector.Get(context.Background(), 0), nil
}

// compareView: the cluster moves a little, so the view is compared until it is the same.
func (w *world) compareView() error {
	var different error
	err := native.Within(limit, "the view is not what Slurm's commands print", func() bool {
		v, err := w.collect()
		if err != nil {
			different = err
			return false
		}
		if !v.Up() {
			different = fmt.Errorf("it is not up: %v", v.Readings)
			return false
		}
		different = errors.Join(w.compareJobs(v), w.compareNodes(v), w.compareRest(v), w.compareScheduler(v))
		return different == nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, different)
	}
	v := w.collector.Latest()
	states := map[string]int{}
	for j := range v.Jobs.All() {
		states[strings.Join(j.State, "+")] += j.Tasks
	}
	fmt.Println("jobs:", states, "nodes:", len(v.Nodes), "Slurm", v.Version)
	for family, r := range v.Readings {
		fmt.Println(family, "took", r.Took)
	}
	return nil
}

// value is a number of Slurm's JSON.
type value struct {
	Set      bool  `json:"set"`
	Infinite bool  `json:"infinite"`
	Number   int64 `json:"number"`
}

func (v value) known() int64 {
	if !v.Set || v.Infinite {
		return 0
	}
	return v.Number
}

func (w *world) compareJobs(v *clusterview.View) error {
	var answer struct {
		Jobs []struct {
			ID         int64    `json:"job_id"`
			ArrayID    value    `json:"array_job_id"`
			ArrayTask  value    `json:"array_task_id"`
			ArrayTasks string   `json:"array_task_string"`
			HetID      value    `json:"het_job_id"`
			Name       string   `json:"name"`
			User       string   `json:"user_name"`
			UID        int      `json:"user_id"`
			Account    string   `json:"account"`
			Partition  string   `json:"partition"`
			State      []string `json:"job_state"`
			Reason     string   `json:"state_reason"`
			Words      string   `json:"state_description"`
			Hold       bool     `json:"hold"`
			Priority   value    `json:"priority"`
			Submit     value    `json:"submit_time"`
			Eligible   value    `json:"eligible_time"`
			Limit      value    `json:"time_limit"`
			CPUs       value    `json:"cpus"`
			Restarts   int      `json:"restart_cnt"`
			Nodes      string   `json:"nodes"`
			Features   string   `json:"features"`
			Licenses   string   `json:"licenses"`
		} `json:"jobs"`
	}
	if err := w.Ask(&answer, "/usr/bin/squeue", "--all", "--states=all"); err != nil {
		return err
	}
	named := map[int64]slurm.Job{}
	for j := range v.Jobs.All() {
		named[j.ID] = *j
	}
	var all error
	if len(named) != len(answer.Jobs) || len(named) < 60 {
		all = fmt.Errorf("%d jobs, want %d", len(named), len(answer.Jobs))
	}
	for _, want := range answer.Jobs {
		have := named[want.ID]
		reason := want.Reason
		if want.Words != "" {
			reason = want.Words
		}
		if reason == "None" {
			reason = ""
		}
		task := want.ArrayTasks
		if task == "" && want.ArrayTask.Set {
			task = strconv.FormatInt(want.ArrayTask.Number, 10)
		}
		all = errors.Join(all, same(fmt.Sprintf("job %d (%q)", want.ID, want.Name), map[string][2]any{
			"array": {have.ArrayID, want.ArrayID.known()}, "task": {have.ArrayTask, task}, "het": {have.HetID, want.HetID.known()},
			"name": {have.Name, want.Name}, "user": {have.User, want.User}, "uid": {have.UID, want.UID}, "account": {have.Account, want.Account},
			"partitions": {strings.Join(have.Partitions, ","), want.Partition},
			"state":      {sorted(slices.Clone(have.State)), sorted(want.State)},
			"reason":     {have.Reason, reason}, "held": {have.Held, want.Hold && slices.Contains(want.State, "PENDING")},
			"priority": {have.Priority, want.Priority.known()}, "submit": {int64(have.Submit), want.Submit.known()}, "eligible": {int64(have.Eligible), want.Eligible.known()},
			"limit": {have.TimeLimit, time.Duration(want.Limit.known()) * time.Minute}, "cpus": {int64(have.CPUs), want.CPUs.known()}, "restarts": {have.Restarts, want.Restarts},
			"nodes": {have.NodeList, want.Nodes}, "features": {have.Features, want.Features}, "licenses": {have.Licenses, want.Licenses},
		}))
	}
	out, err := w.slurm("squeue", "--noheader", "--all", "--states=all", "--format=%A %T")
	for line := range strings.Lines(out) {
		id, state, _ := strings.Cut(strings.TrimSpace(line), " ")
		number, _ := strconv.ParseInt(id, 10, 64)
		if j := named[number]; !j.State.Is(state) {
			all = errors.Join(all, fmt.Errorf("job %s: squeue says %s", id, state))
		}
	}
	return errors.Join(all, err)
}

// sorted is a state's words in one order.
func sorted(words []string) string {
	words = slices.Clone(words)
	slices.Sort(words)
	return strings.Join(words, "+")
}

// same compares what the view has with what Slurm says.
func same(what string, values map[string][2]any) (all error) {
	for name, one := range values {
		if one[0] != one[1] {
			all = errors.Join(all, fmt.Errorf("%s: %s is %v, want %v", what, name, one[0], one[1]))
		}
	}
	return all
}

func (w *world) compareNodes(v *clusterview.View) error {
	var answer struct {
		Nodes []struct {
			Name       string   `json:"name"`
			State      []string `json:"state"`
			Partitions []string `json:"partitions"`
			Features   []string `json:"features"`
			CPUs       int      `json:"cpus"`
			Effective  int      `json:"effective_cpus"`
			Alloc      int      `json:"alloc_cpus"`
			Memory     int64    `json:"real_memory"`
			AllocMem   int64    `json:"alloc_memory"`
			Reason     string   `json:"reason"`
			ReasonAt   value    `json:"reason_changed_at"`
			ReasonBy   string   `json:"reason_set_by_user"`
			Boot       value    `json:"boot_time"`
			Slurmd     value    `json:"slurmd_start_time"`
			Busy       value    `json:"last_busy"`
			Weight     int      `json:"weight"`
			Extra      string   `json:"extra"`
			Comment    string   `json:"comment"`
			Version    string   `json:"version"`
			Topology   string   `json:"topology"`
		} `json:"nodes"`
	}
	if err := w.Ask(&answer, "/usr/bin/scontrol", "show", "nodes"); err != nil {
		return err
	}
	out, err := w.slurm("sinfo", "--all", "--Node", "--noheader", "--Format=NodeHost:|,StateComplete:|")
	if err != nil {
		return err
	}
	states := map[string]string{}
	for line := range strings.Lines(out) {
		fields := strings.Split(line, "|")
		states[fields[0]] = fields[1]
	}
	var all error
	if len(v.Nodes) != len(answer.Nodes) || len(v.Nodes) != len(w.Nodes)+21 {
		all = fmt.Errorf("%d nodes, want %d", len(v.Nodes), len(answer.Nodes))
	}
	for i, want := range answer.Nodes {
		have := v.Nodes[i]
		if want.Reason == "" {
			want.ReasonBy = ""
		}
		all = errors.Join(all, same("node "+want.Name, map[string][2]any{
			"name": {have.Name, want.Name}, "state": {sorted(slices.Clone(have.State)), sorted(want.State)},
			"sinfo's state": {strings.ToLower(sorted(slices.Clone(have.State))), sorted(strings.Split(states[want.Name], "+"))},
			"partitions":    {strings.Join(have.Partitions, ","), strings.Join(want.Partitions, ",")}, "features": {strings.Join(have.Features, ","), strings.Join(want.Features, ",")},
			"cpus":   {[3]int{have.CPUs, have.CPUsEffective, have.CPUsAlloc}, [3]int{want.CPUs, want.Effective, want.Alloc}},
			"memory": {[2]int64{have.RealMemory, have.MemoryAlloc}, [2]int64{want.Memory, want.AllocMem}},
			"reason": {have.Reason, want.Reason}, "reason's user": {have.ReasonUser, want.ReasonBy}, "reason's time": {int64(have.ReasonAt), want.ReasonAt.known()},
			"boot": {int64(have.BootAt), want.Boot.known()}, "slurmd": {int64(have.SlurmdStartAt), want.Slurmd.known()}, "busy": {int64(have.LastBusyAt), want.Busy.known()},
			"weight": {have.Weight, want.Weight}, "extra": {have.Extra, want.Extra}, "comment": {have.Comment, want.Comment},
			"version": {have.Version, want.Version}, "topology": {have.Topology, want.Topology},
			"gpus": {have.GPUs, map[bool]int{true: 2}[want.Name == "g-1"]},
		}))
	}
	return all
}

func (w *world) compareRest(v *clusterview.View) error {
	var all error
	out, err := w.slurm("sinfo", "--all", "--noheader", "--summarize", "--format=%R %a %D")
	var have, want []string
	for line := range strings.Lines(out) {
		want = append(want, strings.TrimSpace(line))
	}
	for _, p := range v.Partitions {
		have = append(have, fmt.Sprint(p.Name, " ", strings.ToLower(p.State), " ", p.Nodes))
	}
	slices.Sort(have)
	slices.Sort(want)
	all = errors.Join(err, same("partitions", map[string][2]any{"lines": {strings.Join(have, ";"), strings.Join(want, ";")}}))
	var reservations struct {
		List []struct {
			Name  string `json:"name"`
			Start value  `json:"start_time"`
			End   value  `json:"end_time"`
			Nodes int    `json:"node_count"`
			List  string `json:"node_list"`
		} `json:"reservations"`
	}
	all = errors.Join(all, w.Ask(&reservations, "/usr/bin/scontrol", "show", "reservations"))
	if len(v.Reservations) != len(reservations.List) || len(v.Reservations) != 2 {
		return errors.Join(all, fmt.Errorf("%d reservations, want %d", len(v.Reservations), len(reservations.List)))
	}
	for i, want := range reservations.List {
		r := v.Reservations[i]
		all = errors.Join(all, same("reservation "+want.Name, map[string][2]any{
			"name": {r.Name, want.Name}, "start": {int64(r.Start), want.Start.known()}, "end": {int64(r.End), want.End.known()}, "nodes": {r.Nodes, want.Nodes}, "list": {r.NodeList, want.List},
		}))
	}
	var licenses struct {
		List []struct {
			Name                        string `json:"LicenseName"`
			Total, Used, Free, Reserved int
		} `json:"licenses"`
	}
	all = errors.Join(all, w.Ask(&licenses, "/usr/bin/scontrol", "show", "licenses"))
	if len(v.Licenses) != len(licenses.List) || len(v.Licenses) != 2 {
		return errors.Join(all, fmt.Errorf("%d licenses, want %d", len(v.Licenses), len(licenses.List)))
	}
	for _, want := range licenses.List {
		if !slices.Contains(v.Licenses, clusterview.License(want)) {
			all = errors.Join(all, fmt.Errorf("license %s is not among %v, want %v", want.Name, v.Licenses, want))
		}
	}
	return all
}

// compareScheduler compares the counts that stand still with what sdiag prints.
func (w *world) compareScheduler(v *clusterview.View) error {
	out, err := w.slurm("sdiag")
	if err != nil {
		return err
	}
	said := map[string]string{}
	for line := range strings.Lines(out) {
		key, text, found := strings.Cut(strings.TrimSpace(line), ":")
		if _, twice := said[key]; found && !twice {
			said[key] = strings.TrimSpace(text)
		}
		if fields := strings.Fields(line); len(fields) > 3 && fields[0] == "REQUEST_SUBMIT_BATCH_JOB" {
			for _, field := range fields {
				if key, text, is := strings.Cut(field, ":"); is {
					said["submit "+key] = text
				}
			}
		}
	}
	s := v.Scheduler
	var submits clusterview.RPC
	for _, rpc := range s.RPCs {
		if rpc.Name == "REQUEST_SUBMIT_BATCH_JOB" {
			submits = rpc
		}
	}
	return same("sdiag", map[string][2]any{
		"submitted": {fmt.Sprint(s.SchedulerJobs.Submitted), said["Jobs submitted"]}, "started": {fmt.Sprint(s.SchedulerJobs.Started), said["Jobs started"]},
		"completed": {fmt.Sprint(s.SchedulerJobs.Completed), said["Jobs completed"]}, "canceled": {fmt.Sprint(s.SchedulerJobs.Canceled), said["Jobs canceled"]}, "failed": {fmt.Sprint(s.SchedulerJobs.Failed), said["Jobs failed"]},
		"longest cycle": {fmt.Sprint(s.Main.CycleMax.Microseconds()), said["Max cycle"]},
		"submits":       {fmt.Sprint(submits.Count), said["submit count"]}, "time of submits": {fmt.Sprint(submits.Sum.Microseconds()), said["submit total_time"]},
	})
}

// hang: as slurmctld hangs, the last values stay with their age, and no command is left behind.
func (w *world) hang() error {
	before, err := w.collect()
	if err != nil {
		return err
	}
	slurmctlds, err := processes("slurmctld")
	if err != nil || len(slurmctlds) != 1 {
		return fmt.Errorf("there are %d slurmctlds: %w", len(slurmctlds), err)
	}
	if err := unix.Kill(slurmctlds[0], unix.SIGSTOP); err != nil {
		return err
	}
	began := time.Now()
	during, err := w.collect()
	took := time.Since(began)
	left, leftErr := processes("sdiag")
	if err := errors.Join(err, leftErr, unix.Kill(slurmctlds[0], unix.SIGCONT)); err != nil {
		return err
	}
	r := during.Readings[clusterview.FamilyJobs]
	if during.Up() || r.Err == nil || r.At != before.Readings[clusterview.FamilyJobs].At || during.Jobs.Len() != before.Jobs.Len() || len(during.Nodes) != len(before.Nodes) {
		return fmt.Errorf("the view of a slurmctld that hangs: %v", during.Readings)
	}
	if took > limit || len(left) > 0 { // two questions' time on an idle machine
		return fmt.Errorf("the collection took %v, and left %d commands", took, len(left))
	}
	fmt.Println("a collection took", took.Round(time.Millisecond), "as slurmctld hung:", r.Err)
	return native.Within(limit, "slurmctld does not answer again", func() bool {
		v, err := w.collect()
		return err == nil && v.Up()
	})
}

// processes are those of a program.
func processes(program string) (pids []int, err error) {
	all, err := procfs.AllProcs()
	for _, p := range all {
		if name, err := p.Comm(); err == nil && name == program {
			pids = append(pids, p.PID)
		}
	}
	return pids, err
}

// cpuOf is the processor time that a process has had.
func cpuOf(pid int) (time.Duration, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	return time.Duration(stat.CPUTime() * float64(time.Second)).Round(time.Millisecond), err
}
