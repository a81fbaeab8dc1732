//go:build e2e

package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

type testCase struct {
	name string
	// conf is lines of slurm.conf.
	conf string
	play func(*world) error
}

var cases = []testCase{
	{"slurmctld is killed under submissions", "", (*world).killedUnderSubmissions},
	{"two agents on one state", "", (*world).twoAgents},
}

// killedUnderSubmissions: slurmctld saves its state every five seconds. A crash loses what came after.
func (w *world) killedUnderSubmissions() error {
	crashes := 3
	if w.full {
		crashes = 20
	}
	if err := w.begin(); err != nil {
		return err
	}
	load := w.load(100 * time.Millisecond)
	defer load.end()
	var took []time.Duration
	for range crashes {
		<-time.After(2*time.Second + rand.N(5*time.Second)) // as much as slurmctld may lose
		if err := w.untilReady(); err != nil {
			return err
		}
		gap, err := w.crash()
		if err != nil {
			return err
		}
		took = append(took, gap.Round(time.Millisecond))
	}
	load.end()
	if err := w.untilReady(); err != nil {
		return err
	}
	ids, twice := load.ids(), load.twice()
	slices.Sort(took)
	fmt.Printf("%d crashes, %d containers ended: squeue had an answer after %v (median), %v at most; %d jobs were acknowledged, and %d commands failed\n",
		crashes, w.containerEnds(), took[len(took)/2], took[len(took)-1], len(ids), len(load.failed))
	for said, times := range load.failures() {
		fmt.Printf("failed %d times: %s\n", times, said)
	}
	if len(twice) > 0 {
		return fmt.Errorf("ids were given twice: %v", twice)
	}
	var unknown, wrong []int
	reported := 0
	err := native.Within(native.Limit, "not each job is known or reported", func() bool {
		known, err := w.known()
		lost, alsoErr := w.reported()
		if errors.Join(err, alsoErr) != nil {
			return false
		}
		reported = len(lost)
		wrong = slices.DeleteFunc(slices.Clone(ids), func(id int) bool { return !known[id] || !lost[id] })
		unknown = slices.DeleteFunc(slices.Clone(ids), func(id int) bool { return known[id] || lost[id] })
		return len(unknown) == 0
	})
	if err != nil {
		return fmt.Errorf("%w: %v of %v", err, unknown, len(ids))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("jobs are known, and reported as lost: %v", wrong)
	}
	fmt.Printf("%d jobs were lost and reported\n", reported)
	if w.containerEnds() > 0 && !w.full {
		return fmt.Errorf("%d containers have ended", w.containerEnds())
	}
	return nil
}

// reported are the jobs of which slurmctld's agent tells that a crash has lost them.
func (w *world) reported() (map[int]bool, error) {
	s, err := w.AgentStatus()
	if err != nil {
		return nil, err
	}
	all := map[int]bool{}
	if s.LostJobs != nil {
		for _, job := range s.LostJobs.Lost {
			all[int(job.ID)] = true
		}
	}
	return all, nil
}
