package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// JobUsage is what the processes of a job use on this node, its slurmstepds among them.
type JobUsage struct {
	// Number is the job's in Slurm.
	Number string
	Usage
}

const (
	// mostJobs bounds how many cgroups of jobs count. Slurm's own limit is MaxJobCount.
	mostJobs = 1 << 14
	// mostEntries is how many entries of a cgroup are looked at for a step with a slurmstepd: the
	// interface files are some 60.
	mostEntries = 1 << 9
)

// CountJobs has the kernel count each job's I/O and threads, for which Slurm turns no controller
// on. Where it cannot, they are missing.
func (f FS) CountJobs(d Delegation) {
	for _, controller := range []string{"io", "pids"} {
		_ = write(filepath.Join(f.root, d.Steps, "cgroup.subtree_control"), "+"+controller)
	}
}

// ReadJobs reads what each job uses whose cgroup is in dir (Delegation.Steps), the oldest first and
// no more than most. count is how many cgroups of jobs there are. A job that has gone meanwhile is left
// out, and one whose number is not known yet. Of two with one number the younger counts.
func (r *UsageReader) ReadJobs(dir string, most int) (jobs []JobUsage, count int, err error) {
	names, err := jobNames(filepath.Join(r.fs.root, dir))
	if err != nil {
		return nil, 0, err
	}
	known := make(map[string]string, min(len(names), most))
	for _, name := range names[:min(len(names), most)] {
		number := cmp.Or(r.jobs[name], r.fs.numberOf(name, filepath.Join(r.fs.root, dir, name)))
		if number == "" {
			continue
		}
		known[name] = number
		u, _, err := r.read(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		// The job of a requeue has a cgroup of its own (26.05), beside one whose last process is to end yet.
		jobs = slices.DeleteFunc(jobs, func(j JobUsage) bool { return j.Number == number })
		jobs = append(jobs, JobUsage{number, u})
	}
	r.jobs = known
	return jobs, len(names), nil
}

// jobNames are the cgroups of jobs, by age: numbers grow, and a SLUID begins with its time.
func jobNames(dir string) ([]string, error) {
	entries, err := firstEntries(dir, mostJobs)
	if err != nil {
		return nil, fmt.Errorf("cannot list the cgroups of jobs: %w", err)
	}
	names := slices.DeleteFunc(entries, func(name string) bool { return !isJob(name) })
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return names, nil
}

// numberOf is empty as long as no slurmstepd of the job has written it.
func (f FS) numberOf(name, path string) string {
	if number, found := strings.CutPrefix(name, jobPrefix); found {
		return number
	}
	entries, _ := firstEntries(path, mostEntries) // one that has gone has none
	for _, entry := range entries {
		if !strings.HasPrefix(entry, stepPrefix) {
			continue
		}
		if number := f.jobNumber(name, filepath.Join(path, entry)); number != "" && strings.Trim(number, "0123456789") == "" {
			return number
		}
	}
	return ""
}

// firstEntries are the names in a directory, no more than so many.
func firstEntries(path string, most int) ([]string, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(most)
	if errors.Is(err, io.EOF) { // it is empty
		err = nil
	}
	return names, err
}
