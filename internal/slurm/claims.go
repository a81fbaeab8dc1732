package slurm

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// Claim is a job that has not ended, or a reservation, that names nodes. slurmctld keeps the nodes
// that it names as numbers of records. When a record is deleted, the next new record gets its number, and
// slurmctld ends the pending jobs that name it when it is configured anew.
type Claim struct {
	// Job is the job as Slurm's commands take it: 5, 5_[1-3] or 5+1. Reservation is the name of a
	// reservation. One of them is empty.
	Job, Reservation string
	// ID is the job's number: of tasks of an array that have not begun, the array's.
	ID string
	// Nodes are the nodes that the job asks for (--nodelist), or that the reservation has, and
	// Excluded those that the job refuses (--exclude), as host lists.
	Nodes, Excluded string
	// Holds are the nodes that the job has; a pending one has none. Of one that is COMPLETING, they are those that it
	// still ends on, and Given are all that it was started on.
	Holds, Given string
	// Completing: the job is being ended on the nodes that it holds.
	Completing bool
	// All: the reservation was made with nodes=ALL. slurmctld makes its list anew from all records when it is
	// configured anew, so it names no node. So it does with all nodes of a partition (PART_NODES).
	All bool
	// Partition is that of a reservation, empty for none.
	Partition string
}

// claimsFormat are the columns that squeue is asked for. A bar stands between them, because no host list has one.
const claimsFormat = "--format=%i|%A|%n|%x|%N|%t"

// Claims asks squeue(1) for all jobs that have not ended, "scontrol show reservation", and for the nodes of jobs that are
// COMPLETING. Jobs that name no node and hold none are left out.
func (s Scontrol) Claims(ctx context.Context) ([]Claim, error) {
	var reservations []Claim
	var fault error
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		reservations, fault = s.reservations(ctx)
	}()
	all, err := s.JobClaims(ctx)
	if err == nil {
		err = s.addGiven(ctx, all)
	}
	<-asked
	if err := cmp.Or(err, fault); err != nil {
		return nil, err
	}
	return append(all, reservations...), nil
}

// JobClaims are those of jobs, at the cost of squeue alone: without Given.
func (s Scontrol) JobClaims(ctx context.Context) (all []Claim, err error) {
	out, err := s.command(ctx, "squeue", exec.CommandContext(ctx, s.Squeue, "--noheader", "--all", "--local", claimsFormat))
	if err != nil {
		return nil, err
	}
	return parseClaims(string(out))
}

// parseClaims reads squeue's lines. What it cannot read is an error, because nobody knows whom it names.
func parseClaims(text string) (all []Claim, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 6 || fields[0] == "" || fields[1] == "" {
			return nil, fmt.Errorf("cannot read the answer of squeue: want a job, its number, three host lists and a state, not %q", line)
		}
		c := Claim{
			Job: fields[0], ID: fields[1], Nodes: fields[2], Excluded: fields[3], Holds: fields[4], Completing: fields[5] == "CG",
		}
		if c.Nodes+c.Excluded+c.Holds != "" {
			all = append(all, c)
		}
	}
	return all, nil
}

func (s Scontrol) reservations(ctx context.Context) (all []Claim, err error) {
	var answer struct {
		Reservations []struct {
			Name      string   `json:"name"`
			Nodes     string   `json:"node_list"`
			Flags     []string `json:"flags"`
			Partition string   `json:"partition"`
		} `json:"reservations"`
	}
	if err := s.ask(ctx, &answer, "show", "reservation", "--json"); err != nil {
		return nil, err
	}
	if answer.Reservations == nil {
		return nil, listless("show reservation", "reservations")
	}
	for _, r := range answer.Reservations {
		whole := slices.Contains(r.Flags, "ALL_NODES") || slices.Contains(r.Flags, "PART_NODES")
		all = append(all, Claim{Reservation: r.Name, Nodes: r.Nodes, All: whole, Partition: r.Partition})
	}
	return all, nil
}

// Pending says whether it is a job that has not begun, or begins anew.
func (c *Claim) Pending() bool { return c.Job != "" && c.Holds == "" }

// who says who it is, for people.
func (c *Claim) who() string {
	if c.Reservation != "" {
		return "reservation " + c.Reservation
	}
	return "job " + c.Job
}

// Named says which of the nodes are named, and by whom, in words that follow the node's name. A list that cannot be read
// is an error: nobody knows whom it names.
func Named(claims []Claim, nodes []string) (map[string]string, error) {
	named, of := map[string]string{}, setOf(nodes)
	for i := range claims {
		c := &claims[i]
		if c.All {
			continue
		}
		for _, one := range []struct{ list, why string }{
			{c.Nodes, "names the node"}, {c.Excluded, "excludes the node"}, {c.Given, "ends on other nodes"},
		} {
			if c.Reservation != "" {
				one.why = "has the node"
			}
			found, err := c.among(one.list, of)
			if err != nil {
				return nil, err
			}
			for _, node := range found {
				if named[node] == "" {
					named[node] = c.who() + " " + one.why
				}
			}
		}
	}
	return named, nil
}

// Held says which of the nodes jobs hold.
func Held(claims []Claim, nodes []string) (map[string]bool, error) {
	held, of := map[string]bool{}, setOf(nodes)
	for i := range claims {
		found, err := claims[i].among(claims[i].Holds, of)
		if err != nil {
			return nil, err
		}
		for _, node := range found {
			held[node] = true
		}
	}
	return held, nil
}

// nodes are names to be found in host lists.
type nodes struct {
	all []string
	set map[string]bool
}

func setOf(names []string) nodes {
	n := nodes{names, make(map[string]bool, len(names))}
	for _, name := range names {
		n.set[name] = true
	}
	return n
}

// among are those of the nodes that a host list has. It goes through the shorter of the two: 10,000 jobs name a node each,
// and a reservation names 10,000 nodes.
func (c *Claim) among(list string, of nodes) (found []string, err error) {
	if list == "" || len(of.all) == 0 {
		return nil, nil
	}
	hosts, err := hostlist.Parse(list)
	if err != nil {
		return nil, fmt.Errorf("cannot find out which nodes %s names: %w", c.who(), err)
	}
	if hosts.Len() <= len(of.all) {
		for name := range hosts.All() {
			if of.set[name] {
				found = append(found, name)
			}
		}
		return found, nil
	}
	for _, node := range of.all {
		if hosts.Contains(node) {
			found = append(found, node)
		}
	}
	return found, nil
}
