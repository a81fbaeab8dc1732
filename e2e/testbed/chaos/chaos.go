// Package chaos has what the tests share that play chaos: which one is played, the jobs, and how they may end.
package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"
)

// Plan is which chaos is played: the same seed does the same things in the same order.
type Plan struct {
	Length time.Duration
	Seed   uint64
}

// Read returns what was asked for, by default always the same, because `make test` is no lottery. `make chaos` draws
// a seed.
func (p Plan) Read() (Plan, error) {
	var length, seed error
	if text := os.Getenv(lengthVariable); text != "" {
		p.Length, length = time.ParseDuration(text)
		p.Seed = uint64(time.Now().UnixNano())
	}
	if text := os.Getenv(seedVariable); text != "" {
		p.Seed, seed = strconv.ParseUint(text, 10, 64)
	}
	return p, errors.Join(length, seed)
}

// Asked: somebody wants chaos of a length, or one of before.
func Asked() bool { return os.Getenv(lengthVariable) != "" || os.Getenv(seedVariable) != "" }

const (
	lengthVariable = "SLURMLET_CHAOS_TIME"
	seedVariable   = "SLURMLET_CHAOS_SEED"
)

// Again is how it is played once more.
func (p Plan) Again() string {
	return fmt.Sprintf("to repeat it: %s=%d %s=%v", seedVariable, p.Seed, lengthVariable, p.Length)
}

// Dice are those of the things that happen, and of the jobs.
func (p Plan) Dice() (things, jobs *rand.Rand) {
	return rand.New(rand.NewPCG(p.Seed, 0)), rand.New(rand.NewPCG(p.Seed, 1))
}

// Kind is a kind of job. Each of its parts writes a line when it begins and one when it ends, in a file of its own.
type Kind struct {
	Name    string
	Options []string
	Script  string // %d is for how many seconds it runs
	Parts   int
	// Requeues: it is started anew when a node fails; otherwise it may fail.
	Requeues bool
}

// Kinds are those of every chaos.
var Kinds = []Kind{
	{"batch", []string{"--requeue"}, "sleep %d", 1, true},
	{"fixed", []string{"--no-requeue"}, "sleep %d", 1, false},
	{"array", []string{"--requeue", "--array=1-3"}, "sleep %d", 3, true},
	{"steps", []string{"--requeue"}, "srun sleep %d && srun true", 1, true},
	{"wide", []string{"--requeue", "-N2", "--ntasks-per-node=1"}, "srun sleep %d", 1, true},
}

// Job is one that was submitted.
type Job struct {
	Kind
	ID, Name string
}

// script notes each begin with how often Slurm has started the job anew, each end, and a run beside another one.
const script = `f=%s/chaos-$SLURM_JOB_NAME${SLURM_ARRAY_TASK_ID:+-$SLURM_ARRAY_TASK_ID}; exec 9>>$f.lock; flock -n 9 || echo beside >> $f; echo begin $SLURM_RESTART_COUNT >> $f; %s; echo end >> $f`

// Draw draws a job, the ith, whose parts write into dir. Its arguments are those of sbatch.
func Draw(dice *rand.Rand, kinds []Kind, i int, dir string) (j Job, args []string) {
	k := kinds[dice.IntN(len(kinds))]
	j = Job{Kind: k, Name: fmt.Sprintf("%s-%d", k.Name, i)}
	text := fmt.Sprintf(script, dir, fmt.Sprintf(k.Script, 1+dice.IntN(8)))
	args = append([]string{"--parsable", "--chdir=" + dir, "--output=/dev/null", "--job-name=" + j.Name, "--time=10"}, k.Options...)
	return j, append(args, "--wrap", text)
}

// Part is one of a job's: its number in slurmctld, and its file.
func (j Job) Part(i int) (id, file string) {
	if j.Parts == 1 {
		return j.ID, "chaos-" + j.Name
	}
	return fmt.Sprintf("%s_%d", j.ID, i+1), fmt.Sprintf("chaos-%s-%d", j.Name, i+1)
}

// Fate is what became of a part of a job.
type Fate struct {
	State    string
	Restarts int
	// Text is what it has written.
	Text string
	// Cancelled: somebody has cancelled it. Failed counts the nodes that it may have lost, and Forgotten how often
	// slurmctld may have lost its last news of the job.
	Cancelled         bool
	Failed, Forgotten int
	// CutOff: nodes were cut off. slurmctld starts such a node's jobs anew elsewhere, and cannot end them there.
	CutOff bool
}

// Judge says what is wrong with a fate; nil if the part has ended once, as it should.
func (k Kind) Judge(f Fate) error {
	begins, ends := strings.Count(f.Text, "begin"), strings.Count(f.Text, "end\n")
	excused := f.Restarts + f.Forgotten
	switch {
	case strings.Contains(f.Text, "beside") && !f.CutOff:
		return errors.New("it ran twice at the same time")
	case begins > excused+1 || ends > begins:
		return fmt.Errorf("it began %d times, and ended %d times", begins, ends)
	case f.Restarts > f.Failed+f.Forgotten:
		return fmt.Errorf("it was started anew %d times, and it has lost %d nodes", f.Restarts, f.Failed)
	case f.State == "COMPLETED" && (ends == 0 || excused == 0 && ends != 1):
		return fmt.Errorf("it has completed, and ended %d times", ends)
	case f.State == "COMPLETED", f.State == "CANCELLED" && f.Cancelled, f.State == "NODE_FAIL" && !k.Requeues && f.Failed+f.Forgotten > 0:
		return nil
	case f.State == "CANCELLED" && !k.Requeues && f.Forgotten > 0: // it ran where slurmctld launched it again, and may not begin anew
		return nil
	}
	return errors.New("it ended as it should not")
}
