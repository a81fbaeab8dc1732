//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/sandbox"
)

// kind is a kind of job. Each of its parts writes a line when it begins and one
// when it ends, in a file of its own.
type kind struct {
	name    string
	options []string
	script  string // %d is for how many seconds it runs
	parts   int
	// requeues: it is started anew when a node fails; otherwise it may fail.
	requeues bool
}

const noted = `f=/shared/chaos-$SLURM_JOB_NAME${SLURM_ARRAY_TASK_ID:+-$SLURM_ARRAY_TASK_ID}; echo begin $SLURM_RESTART_COUNT >> $f; %s; echo end >> $f`

var kinds = []kind{
	{"batch", []string{"--requeue"}, "sleep %d", 1, true},
	{"fixed", []string{"--no-requeue"}, "sleep %d", 1, false},
	{"array", []string{"--requeue", "--array=1-3"}, "sleep %d", 3, true},
	{"steps", []string{"--requeue"}, "srun sleep %d && srun true", 1, true},
	{"wide", []string{"--requeue", "-N2", "--ntasks-per-node=1"}, "srun sleep %d", 1, true},
}

// workload is the jobs that were submitted.
type workload struct {
	*cluster
	dice *rand.Rand
	jobs []submitted
}

type submitted struct {
	kind
	id, name string
}

func newWorkload(c *cluster, dice *rand.Rand) *workload { return &workload{cluster: c, dice: dice} }

// submitUntil submits a job every second or so. While slurmctld is away sbatch
// waits, or fails, and then the job was not submitted.
func (w *workload) submitUntil(end time.Time) {
	for i := 0; time.Now().Before(end); i++ {
		k := kinds[w.dice.IntN(len(kinds))]
		name := fmt.Sprintf("%s-%d", k.name, i)
		script := fmt.Sprintf(noted, fmt.Sprintf(k.script, 1+w.dice.IntN(8)))
		args := append([]string{"sbatch", "--parsable", "--chdir=/shared", "--output=/dev/null", "--job-name=" + name, "--mem=32", "--time=10"}, k.options...)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		out, _, code, err := w.ExecAs(ctx, "login", sandbox.How{User: "alice", Dir: "/tmp"}, append(args, "--wrap", script)...)
		cancel()
		if err == nil && code == 0 {
			w.jobs = append(w.jobs, submitted{k, strings.TrimSpace(out), name})
		}
		<-time.After(time.Duration(w.dice.Int64N(int64(2 * time.Second))))
	}
}

// judge waits for the end of all jobs and says how each has ended.
func (w *workload) judge(t *testing.T, blows int) {
	require.NotEmpty(t, w.jobs)
	within(t, 3*limit, "the queue is empty", func() (bool, string) {
		left := w.run(t, sandbox.Controller, "squeue", "--noheader", "--array", "--format=%i %r %T %N %j")
		for line := range strings.Lines(left) {
			// A job that was requeued may not begin for two minutes.
			if id, rest, _ := strings.Cut(line, " "); strings.HasPrefix(rest, "BeginTime") {
				_, _, _, err := w.Exec(t.Context(), sandbox.Controller, "scontrol", "update", "jobid="+id, "starttime=now+3")
				assert.NoError(t, err)
			}
		}
		return strings.TrimSpace(left) == "", left
	})
	runs, again := 0, 0
	for _, job := range w.jobs {
		for part := range job.parts {
			file, id := "/shared/chaos-"+job.name, job.id
			if job.parts > 1 {
				file, id = fmt.Sprintf("%s-%d", file, part+1), fmt.Sprintf("%s_%d", id, part+1)
			}
			runs++
			if w.judgeOne(t, job, id, file) {
				again++
			}
		}
	}
	t.Logf("%d jobs, %d runs, %d of them more than once; %d containers were killed", len(w.jobs), runs, again, blows)
}

// judgeOne says whether a job was started more than once.
func (w *workload) judgeOne(t *testing.T, job submitted, id, file string) bool {
	fields := w.job(t, id)
	text, _, _, err := w.Exec(t.Context(), "login", "cat", file)
	require.NoError(t, err)
	begins, ends := strings.Count(text, "begin"), strings.Count(text, "end\n")
	restarts, _ := strconv.Atoi(fields["Restarts"])
	what := fmt.Sprintf("job %s (%s): %s, %d restarts, %s; %q", id, job.name, fields["JobState"], restarts, fields["ExitCode"], text)
	switch state := fields["JobState"]; {
	case state == "COMPLETED":
		assert.Positive(t, ends, what)
		assert.LessOrEqual(t, begins, restarts+1, what)
		assert.LessOrEqual(t, ends, begins, what)
		if restarts == 0 {
			assert.Equal(t, 1, begins, what)
			assert.Equal(t, 1, ends, what)
		}
	case state == "NODE_FAIL" && !job.requeues:
		// A container was killed under it: Slurm says so.
	default:
		t.Errorf("ended as it should not: %s", what)
	}
	return restarts > 0
}
