//go:build e2e

package edits

import (
	"fmt"
	"strings"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// namesGoneNodes: jobs name a node whose record somebody has deleted. slurmctld would end them as it is configured anew,
// for whatever edit.
func namesGoneNodes(e *edits) error {
	gone, other := e.Nodes[4], e.Nodes[3].Name
	var ids []string
	for _, options := range [][]string{
		{"--nodelist=" + gone.Name, "--begin=now+1hour"},
		{"--nodelist=" + gone.Name + "," + other, "--nodes=2", "--begin=now+1hour"},
		{"--nodelist=" + gone.Name, "--hold", "--array=1-3"},
	} {
		id, err := e.slurm("sbatch", append(options, "--parsable", "--output=/dev/null", "--wrap=true")...)
		if err != nil {
			return err
		}
		ids = append(ids, strings.TrimSpace(id))
	}
	spared, err := e.slurm("sbatch", "--exclude="+gone.Name, "--hold", "--parsable", "--output=/dev/null", "--wrap=true")
	if err != nil {
		return err
	}
	if err := gone.Terminate(); err != nil {
		return err
	}
	<-gone.Exited
	_, _ = e.slurm("scontrol", "delete", "nodename="+gone.Name) // the agent may have done so
	before, err := e.AgentStatus()
	if err != nil {
		return err
	}
	if err := e.edit(good); err != nil {
		return err
	}
	var why string
	if err := e.until("the edit is refused", func(s *agent.Status) bool {
		if s.Conf.Refused != nil {
			why = strings.Join(s.Conf.Refused.Why, "\n")
		}
		return why != "" || s.Conf.Good != before.Conf.Good
	}); err != nil {
		return err
	}
	for _, who := range append(ids, "("+gone.Name+")") {
		if !strings.Contains(why, who) {
			return fmt.Errorf("the refusal does not name %s: %q", who, why)
		}
	}
	states, err := e.slurm("squeue", "--noheader", "--array", "--format=%T", "--jobs="+strings.Join(ids, ","))
	if n := strings.Count(states, "PENDING"); err != nil || n != 5 {
		return fmt.Errorf("%d of 5 jobs are pending: %w", n, err)
	}
	fmt.Println(why)
	if _, err := e.slurm("scancel", ids...); err != nil {
		return err
	}
	if err := e.until("the edit is live", func(s *agent.Status) bool { return s.Conf.Good != before.Conf.Good && s.Conf.Doing == "" }); err != nil {
		return err
	}
	return native.Within(native.Limit, "a job that excludes the node is not there any more", func() bool {
		state, err := e.slurm("squeue", "--noheader", "--format=%T", "--jobs="+strings.TrimSpace(spared))
		return err == nil && strings.TrimSpace(state) == "PENDING"
	})
}

func (e *edits) slurm(program string, args ...string) (string, error) {
	out, err := e.Command("/usr/bin/"+program, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return string(out), err
}
