package slurm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// CommentedJob is a job that its comment tells from others, with what its nodes have of it.
type CommentedJob struct {
	Job
	Comment string
	// NodeNames are its nodes in Slurm's order, and NodeTasks how many of its tasks each has.
	NodeNames []string
	NodeTasks []int
}

// shownBatch is a job of squeue's JSON.
type shownBatch struct {
	shownJob
	Comment     string `json:"comment"`
	Restarts    int    `json:"restart_cnt"`
	CPUsPerTask number `json:"cpus_per_task"`
	PerNode     number `json:"tasks_per_node"`
	Count       number `json:"tasks"`
	Resources   *struct {
		Nodes struct {
			Allocation []struct {
				Name string `json:"name"`
				CPUs struct {
					Count int `json:"count"`
				} `json:"cpus"`
			} `json:"allocation"`
		} `json:"nodes"`
	} `json:"job_resources"`
}

func (s *shownBatch) commented() CommentedJob {
	j := CommentedJob{Job: s.job(), Comment: s.Comment}
	j.Restarts = s.Restarts
	if s.Resources == nil {
		return j
	}
	allocated := s.Resources.Nodes.Allocation
	left := int(s.Count.Number)
	for i, node := range allocated {
		tasks := int(s.PerNode.Number)
		if tasks == 0 { // each of the nodes that follow has a task at least
			tasks = max(1, min(node.CPUs.Count/max(1, int(s.CPUsPerTask.Number)), left-(len(allocated)-1-i)))
		}
		left -= tasks
		j.NodeNames, j.NodeTasks = append(j.NodeNames, node.Name), append(j.NodeTasks, tasks)
	}
	return j
}

// CommentedLines asks squeue(1) for all jobs that it knows, also those that have ended, and returns a line for each whose
// comment begins with a text. The line changes with what squeue shows of the job. A comment of another job can look like such a
// line, so a line is no more than a reason to ask for the job.
func (s Scontrol) CommentedLines(ctx context.Context, beginning string) (map[uint32]string, error) {
	cmd := exec.CommandContext(ctx, s.beside("squeue"), "--noheader", "--all", "--local", "--states=all", "--format=%A|%T|%r|%S|%N|%k")
	out, err := s.command(ctx, "squeue", cmd)
	if err != nil {
		return nil, err
	}
	all := map[uint32]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.SplitN(strings.TrimSpace(line), "|", 6)
		if len(fields) < 6 || !strings.HasPrefix(fields[5], beginning) {
			continue
		}
		if id, err := strconv.ParseUint(fields[0], 10, 32); err == nil {
			all[uint32(id)] = strings.TrimSpace(line)
		}
	}
	return all, nil
}

// mostCommented is how many jobs one squeue is asked for: some 8 kB each.
const mostCommented = 200

// CommentedJobs asks squeue(1) for jobs by their numbers. Those that slurmctld does not know are left out.
func (s Scontrol) CommentedJobs(ctx context.Context, ids []uint32) (all []CommentedJob, err error) {
	for some := range slices.Chunk(ids, mostCommented) {
		var numbers []string
		for _, id := range some {
			numbers = append(numbers, strconv.FormatUint(uint64(id), 10))
		}
		cmd := exec.CommandContext(ctx, s.beside("squeue"), "--json", "--all", "--local", "--states=all",
			"--jobs="+strings.Join(numbers, ","))
		out, err := s.command(ctx, "squeue", cmd)
		if unknown(err) { // it says so of one job alone
			continue
		}
		if err != nil {
			return nil, err
		}
		var answer struct {
			Batches []shownBatch `json:"jobs"`
		}
		switch err := read("squeue", out, &answer); {
		case unknown(err):
			continue
		case err != nil:
			return nil, err
		case answer.Batches == nil:
			return nil, errors.New(`cannot read the answer of squeue: there is no list "jobs" in it`)
		}
		for i := range answer.Batches {
			if slices.Contains(some, uint32(answer.Batches[i].ID)) { //nolint:gosec // a job's number has 32 bits
				all = append(all, answer.Batches[i].commented())
			}
		}
	}
	return all, nil
}

// RefusedError is Slurm's refusal of a job as it is.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return e.Text }

// Account is a user as the machine's name services have it.
type Account struct {
	Name     string
	UID, GID uint32
	Groups   []uint32
}

// FindAccount asks the machine's name services (getent(1), id(1)), which know more users than /etc/passwd. An error says
// nothing of whether there is the user.
func (s Scontrol) FindAccount(ctx context.Context, name string) (*Account, error) {
	out, err := s.command(ctx, "getent passwd "+name, exec.CommandContext(ctx, "/usr/bin/getent", "passwd", name))
	if err != nil {
		return nil, fmt.Errorf("cannot find the user %s: %w", name, err)
	}
	fields := strings.Split(strings.TrimSpace(string(out)), ":")
	if len(fields) < 4 || fields[0] != name {
		return nil, fmt.Errorf("cannot read what getent says of the user %s: %q", name, out)
	}
	groups, err := s.command(ctx, "id -G "+name, exec.CommandContext(ctx, "/usr/bin/id", "-G", name))
	if err != nil {
		return nil, fmt.Errorf("cannot find the groups of the user %s: %w", name, err)
	}
	a := &Account{Name: name}
	for i, text := range append(fields[2:4:4], strings.Fields(string(groups))...) {
		number, err := strconv.ParseUint(text, 10, 32)
		switch {
		case err != nil:
			return nil, fmt.Errorf("cannot read the ids of the user %s: %w", name, err)
		case i == 0:
			a.UID = uint32(number)
		case i == 1:
			a.GID = uint32(number)
		default:
			a.Groups = append(a.Groups, uint32(number))
		}
	}
	return a, nil
}

// as has a command run as a user.
func (s Scontrol) as(a *Account, cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.UID, Gid: a.GID, Groups: a.Groups}}
	return cmd
}

// Sbatch runs sbatch(1) as a user, with the script on its standard input, and returns the job's number. A RefusedError says
// that there is no such job. After any other error there may be one.
func (s Scontrol) Sbatch(ctx context.Context, a *Account, script string, args ...string) (uint32, error) {
	cmd := s.as(a, exec.CommandContext(ctx, s.beside("sbatch"), append(args, "--parsable")...))
	cmd.Stdin = strings.NewReader(script)
	out, err := s.command(ctx, "sbatch", cmd)
	if err != nil {
		said := err.Error()
		if _, why, failed := strings.Cut(said, "Batch job submission failed: "); failed && !errors.Is(err, ErrUnreachable) {
			return 0, &RefusedError{why}
		}
		if isMisuse(said) {
			return 0, &RefusedError{strings.TrimPrefix(said, "sbatch: ")}
		}
		return 0, err
	}
	number, _, _ := strings.Cut(strings.TrimSpace(string(out)), ";") // the cluster follows
	id, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("cannot read the answer of sbatch: %q", out)
	}
	return uint32(id), nil
}

// isMisuse knows what sbatch says of options before it asks anybody (sbatch's opt.c).
func isMisuse(said string) bool {
	return strings.Contains(said, "unrecognized option") || strings.Contains(said, "Invalid --") ||
		strings.Contains(said, "requires an argument")
}

// CancelAs runs scancel(1) as a user. A job that has ended is no error.
func (s Scontrol) CancelAs(ctx context.Context, a *Account, job uint32) error {
	return s.scancelAs(ctx, a, strconv.FormatUint(uint64(job), 10))
}

// CommentAs gives a job another comment, as its user. A job that has ended is no error.
func (s Scontrol) CommentAs(ctx context.Context, a *Account, job uint32, comment string) error {
	cmd := exec.CommandContext(ctx, s.Path, "update", fmt.Sprintf("jobid=%d", job), "comment="+comment)
	if _, err := s.command(ctx, "scontrol update", s.as(a, cmd)); !over(err) {
		return err
	}
	return nil
}

// SignalBatchAs sends a signal to a job's batch script alone, as a user. A job that has ended is no error.
func (s Scontrol) SignalBatchAs(ctx context.Context, a *Account, job uint32, signal string) error {
	return s.scancelAs(ctx, a, "--verbose", "--batch", "--signal="+signal, strconv.FormatUint(uint64(job), 10))
}

func (s Scontrol) scancelAs(ctx context.Context, a *Account, args ...string) error {
	_, err := s.command(ctx, "scancel", s.as(a, exec.CommandContext(ctx, s.beside("scancel"), args...)))
	if over(err) {
		return nil
	}
	return err
}

// beside is one of Slurm's commands that is beside scontrol.
func (s Scontrol) beside(program string) string { return filepath.Join(filepath.Dir(s.Path), program) }
