package slurm

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// RenewNode makes a record that takes no job before somebody resumes it: DOWN and drained, with the reason.
// slurmctld makes records with State=FUTURE alone, which nobody sees and each registration makes idle; a drain stays with them.
func (s Scontrol) RenewNode(ctx context.Context, name string, parameters []string, reason string) error {
	if err := s.CreateNodes(ctx, name, append(parameters, "State=FUTURE")); err != nil {
		return err
	}
	if err := s.DrainNode(ctx, name, reason); err != nil {
		return err
	}
	return s.FailNode(ctx, name, reason)
}

// RenewClaim has slurmctld find the records of the nodes that a pending job or a reservation names, by their names. Each of them
// must have a record: slurmctld forgets the list of a job that names another (24.11.5 and 26.05.5).
func (s Scontrol) RenewClaim(ctx context.Context, c *Claim) error {
	switch {
	case c.Reservation != "":
		_, err := s.run(ctx, "update", "reservationname="+c.Reservation, "nodes="+c.Nodes)
		return err
	case !c.Pending():
		return nil // slurmctld changes no list of a job that has begun
	}
	var fields []string
	if c.Nodes != "" {
		fields = append(fields, "ReqNodeList="+c.Nodes)
	}
	if c.Excluded != "" {
		fields = append(fields, "ExcNodeList="+c.Excluded)
	}
	_, err := s.run(ctx, append([]string{"update", "jobid=" + c.ID}, fields...)...)
	if over(err) {
		return nil
	}
	tasks, isArray := c.tasks()
	if err == nil || !isArray {
		return err
	}
	return s.renewTasks(ctx, tasks, fields)
}

// renewTasks changes tasks one by one: slurmctld does not change those of an array together of which one has begun.
func (s Scontrol) renewTasks(ctx context.Context, tasks, fields []string) error {
	var script strings.Builder
	for _, task := range tasks {
		fmt.Fprintf(&script, "update jobid=%s %s\n", task, strings.Join(fields, " "))
	}
	cmd := exec.CommandContext(ctx, s.Path)
	cmd.Stdin = strings.NewReader(script.String())
	_, err := s.command(ctx, "scontrol update", cmd)
	return err
}

// mostTasks bounds the tasks of an array that are changed one by one: slurmctld makes a job of each.
const mostTasks = 1000

// tasks are those of an array that have not begun, as 5_3. There are none where squeue has cut their list.
func (c *Claim) tasks() (names []string, isArray bool) {
	array, rest, isArray := strings.Cut(c.Job, "_")
	numbers, _, _ := strings.Cut(strings.Trim(rest, "[]"), "%") // 5_[1-9%2] runs two at once
	list, err := hostlist.Parse("[" + numbers + "]")
	if err != nil || list.Len() > mostTasks {
		return nil, false
	}
	for number := range list.All() {
		names = append(names, array+"_"+number)
	}
	return names, isArray
}
