//go:build e2e

package crash

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// load submits jobs of each kind, so many a second.
type load struct {
	world *world
	lock  sync.Mutex
	// acknowledged are the submissions by the ids that their commands were told.
	acknowledged map[int][]string
	failed       []string
	stop         context.CancelFunc
	over         sync.WaitGroup
}

// ran is where each job writes its own id, and that of its array or its own again.
const ran = "srv/ran"

const script = "#!/bin/sh\necho $SLURM_JOB_ID ${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID} >> /" + ran + "\n"

// submission is a kind of job. id finds what its command was told.
type submission struct {
	kind  string
	path  string
	args  []string
	stdin string
	id    *regexp.Regexp
}

var (
	parsable = regexp.MustCompile(`(?m)^(\d+)$`)
	verbose  = regexp.MustCompile(`(?:jobid|job) (\d+)(?::| queued)`)
	numbers  = regexp.MustCompile(`\d+`)
)

// submissions are those of a second, in turn: most are batch jobs that wait.
var submissions = []submission{
	{"batch", "/usr/bin/sbatch", []string{"--parsable", "--hold", "--chdir=/", "--output=/dev/null"}, script, parsable},
	{"batch", "/usr/bin/sbatch", []string{"--parsable", "--hold", "--chdir=/", "--output=/dev/null"}, script, parsable},
	{"srun", "/usr/bin/srun", []string{"-v", "-n1", "--mem=10", "--chdir=/", "/bin/true"}, "", verbose},
	{"batch", "/usr/bin/sbatch", []string{"--parsable", "--hold", "--chdir=/", "--output=/dev/null"}, script, parsable},
	{"array", "/usr/bin/sbatch", []string{"--parsable", "--array=1-3", "--mem=10", "--chdir=/", "--output=/dev/null"}, script, parsable},
	{"batch", "/usr/bin/sbatch", []string{"--parsable", "--mem=10", "--chdir=/", "--output=/dev/null"}, script, parsable},
}

// begin submits until end is called.
func (w *world) load(each time.Duration) *load {
	ctx, stop := context.WithCancel(context.Background())
	l := &load{world: w, acknowledged: map[int][]string{}, stop: stop}
	l.over.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			l.over.Go(func() { l.submit(submissions[n%len(submissions)]) })
			select {
			case <-time.After(each):
			case <-ctx.Done():
			}
		}
	})
	return l
}

// end waits for the commands that are under way.
func (l *load) end() {
	l.stop()
	l.over.Wait()
}

func (l *load) submit(s submission) {
	cmd := l.world.Command(s.path, s.args...)
	cmd.Stdin = strings.NewReader(s.stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := runFor(cmd, 20*time.Second)
	l.lock.Lock()
	defer l.lock.Unlock()
	told := s.id.FindStringSubmatch(out.String())
	if told == nil {
		l.failed = append(l.failed, fmt.Sprintf("%s: %v: %s", s.kind, err, &out))
		return
	}
	id, _ := strconv.Atoi(told[1])
	l.acknowledged[id] = append(l.acknowledged[id], s.kind)
}

// runFor kills a command that has not ended in time.
func runFor(cmd *exec.Cmd, limit time.Duration) error {
	cmd.WaitDelay = time.Second // srun's child may outlive it
	if err := cmd.Start(); err != nil {
		return err
	}
	killer := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	defer killer.Stop()
	return cmd.Wait()
}

// failures counts what the commands that failed have said, without numbers.
func (l *load) failures() map[string]int {
	l.lock.Lock()
	defer l.lock.Unlock()
	said := map[string]int{}
	for _, one := range l.failed {
		said[numbers.ReplaceAllString(one, "N")]++
	}
	return said
}

func (l *load) ids() (ids []int) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for id := range l.acknowledged {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// twice are the ids that two jobs have had: two submissions were told it, or a task of an array has run with it.
func (l *load) twice() (ids []string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	owner := map[int]int{} // the array's, or its own
	for id, kinds := range l.acknowledged {
		owner[id] = id
		if len(kinds) > 1 {
			ids = append(ids, fmt.Sprint(id, kinds))
		}
	}
	for line := range strings.Lines(l.world.read(ran)) {
		var id, of int
		if _, err := fmt.Sscan(line, &id, &of); err != nil {
			continue
		}
		if had, taken := owner[id]; taken && had != of {
			ids = append(ids, fmt.Sprintf("%d [of %d and %d]", id, had, of))
		}
		owner[id] = of
	}
	return ids
}

// known are the ids that slurmctld knows, those of arrays among them.
func (w *world) known() (map[int]bool, error) {
	out, err := w.Command("/usr/bin/squeue", "--noheader", "--states=all", "--array", "--format=%A %F").Output()
	if err != nil {
		return nil, err
	}
	known := map[int]bool{}
	for field := range strings.FieldsSeq(string(out)) {
		if id, err := strconv.Atoi(field); err == nil {
			known[id] = true
		}
	}
	return known, nil
}
