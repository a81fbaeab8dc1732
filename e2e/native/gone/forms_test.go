//go:build e2e

package gone

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// form is a way to name nodes for a job that waits.
type form struct {
	args []string
	// nodes are those that it must have, and none those that it must not have.
	nodes, none string
	// begin has it begin.
	begin []string
}

// formsOf are all ways to name a and b.
func formsOf(a, b string) []form {
	release := []string{"release", "JOB"}
	return []form{
		{args: []string{"-H", "-w", a}, nodes: a, begin: release},
		{args: []string{"-H", "-x", a}, none: a, begin: release},
		{args: []string{"-H", "-N2", "-w", a + "," + b}, nodes: a + "," + b, begin: release},
		{args: []string{"-H", "-w", a, "--array=1-3"}, nodes: a, begin: release},
		{args: []string{"-d", "afterok:FIRST", "-w", b}, nodes: b},
		{args: []string{"--begin=now+1hour", "-w", a}, nodes: a, begin: []string{"update", "jobid=JOB", "starttime=now"}},
		{args: []string{"--begin=now+1hour", "-w", a, "-x", b}, nodes: a, none: b, begin: []string{"update", "jobid=JOB", "starttime=now"}},
		{args: []string{"-p", "off", "-w", b}, nodes: b},
		{args: []string{"--reservation=r0", "-w", w0}, nodes: w0, begin: []string{"update", "jobid=JOB", "reservationname="}},
	}
}

// w0 is a node of reservation r0.
const w0 = "n-1"

func (w *rollingWorld) name() error {
	for i := range w.size.Reservations {
		a, b := w.Nodes[i%len(w.Nodes)].Name, w.Nodes[(i+1)%len(w.Nodes)].Name
		args := []string{"create", "reservation", fmt.Sprintf("reservationname=r%d", i), "users=root", "duration=60", fmt.Sprintf("starttime=now+%ddays", i+1), "nodes=" + a + "," + b}
		switch i % 4 {
		case 1:
			args[len(args)-1] = "nodes=" + a
		case 2:
			args = append(args, "flags=maint")
		case 3:
			args[5] = "starttime=now"
			args = append(args, "flags=ignore_jobs,overlap")
		}
		if _, err := w.slurm("scontrol", args...); err != nil {
			return err
		}
	}
	first := ""
	for i := range w.size.Jobs {
		a, b := w.Nodes[i%len(w.Nodes)].Name, w.Nodes[(i+1)%len(w.Nodes)].Name
		forms := formsOf(a, b)
		f := forms[i%len(forms)]
		args := []string{"--parsable", "--mem=10", "--time=1", "--output=/dev/null", "--wrap=true"}
		for _, arg := range f.args {
			args = append(args, strings.ReplaceAll(arg, "FIRST", first))
		}
		id, err := w.slurm("sbatch", args...)
		if err != nil {
			return err
		}
		if first == "" {
			first = id
		}
		w.forms[id] = f
	}
	var err error
	w.pending, w.kept, err = w.look()
	fmt.Printf("%d jobs and %d reservations\n", strings.Count(w.pending, "\n")+1, strings.Count(w.kept, "\n")+1)
	return err
}

// look asks for the jobs that wait and the reservations, with their nodes.
func (w *rollingWorld) look() (jobs, reservations string, err error) {
	if jobs, err = w.slurm("squeue", "--noheader", "--states=all", "--sort=i", "--format=%i %T nodes=%n excluded=%x"); err != nil {
		return "", "", err
	}
	var lines []string
	for line := range strings.Lines(jobs) {
		id, _, _ := strings.Cut(strings.Fields(line)[0], "_")
		if _, is := w.forms[id]; is { // not the job of before
			lines = append(lines, line)
		}
	}
	all, err := w.slurm("scontrol", "--oneliner", "show", "reservation")
	var kept []string
	for line := range strings.Lines(all) {
		name, _, _ := strings.Cut(line, " ")
		_, nodes, _ := strings.Cut(line, " Nodes=")
		nodes, _, _ = strings.Cut(nodes, " ")
		kept = append(kept, name+" "+nodes)
	}
	slices.Sort(kept)
	return strings.Join(lines, ""), strings.Join(kept, "\n"), err
}

// whole: no job and no reservation is lost, and all have their nodes.
func (w *rollingWorld) whole(after string) error {
	jobs, reservations, err := w.look()
	switch {
	case err != nil:
		return err
	case jobs != w.pending:
		return fmt.Errorf("after %s the jobs are\n%s\nand were\n%s", after, jobs, w.pending)
	case reservations != w.kept:
		return fmt.Errorf("after %s the reservations are\n%s\nand were\n%s", after, reservations, w.kept)
	}
	return nil
}

// release has the jobs begin: what slurmctld shows of a job's nodes are names, and what it obeys are numbers of records.
func (w *rollingWorld) release() error {
	for i := range w.size.Reservations {
		if i == 0 {
			continue // r0 has jobs
		}
		if _, err := w.slurm("scontrol", "delete", fmt.Sprintf("reservationname=r%d", i)); err != nil {
			return err
		}
	}
	if _, err := w.slurm("scontrol", "update", "partitionname=off", "state=up"); err != nil {
		return err
	}
	for id, f := range w.forms {
		var args []string
		for _, arg := range f.begin {
			args = append(args, strings.ReplaceAll(arg, "JOB", id))
		}
		if len(args) == 0 {
			continue
		}
		if _, err := w.slurm("scontrol", args...); err != nil {
			return err
		}
	}
	if err := native.Within(5*time.Minute, "jobs do not end", func() bool {
		left, err := w.slurm("squeue", "--noheader")
		return err == nil && left == ""
	}); err != nil {
		return err
	}
	out, err := w.slurm("squeue", "--noheader", "--states=all", "--format=%F %T %N")
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		f, is := w.forms[fields[0]]
		if !is {
			continue
		}
		if len(fields) < 3 || fields[1] != "COMPLETED" || !f.mayHave(fields[2]) {
			return fmt.Errorf("job %s of %v is %v", fields[0], f.args, fields[1:])
		}
	}
	return nil
}

func (f form) mayHave(nodes string) bool {
	had, err := hostlist.Parse(nodes)
	if err != nil {
		return false
	}
	for _, name := range strings.FieldsFunc(f.nodes, func(r rune) bool { return r == ',' }) {
		if !had.Contains(name) {
			return false
		}
	}
	return f.none == "" || !had.Contains(f.none)
}
