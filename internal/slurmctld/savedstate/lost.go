package savedstate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Job is one that a crash of slurmctld has lost, or has made run again.
type Job struct {
	ID uint32 `json:"id"`
	// Name is the id that users see: 7, or 7_2 for a task of an array.
	Name string `json:"name"`
	// Kind is batch, or allocation for srun and salloc.
	Kind string `json:"kind"`
	// User, JobName and Directory are what the job's environment says, empty where it says nothing. A user can make
	// it say something else.
	User      string `json:"user,omitempty"`
	JobName   string `json:"job_name,omitempty"`
	Directory string `json:"directory,omitempty"`
	// Submitted is when the job was acknowledged, or when slurmctld wrote its script.
	Submitted time.Time `json:"submitted,omitzero"`
	// Nodes are where the job had been started, as far as slurmctld has said so. It was ended there.
	Nodes string `json:"nodes,omitempty"`
	// Script is the path of the job's script, empty for none.
	Script string `json:"script,omitempty"`
	// Found is when the agent found the loss.
	Found time.Time `json:"found,omitzero"`
}

// The kinds of jobs.
const (
	Batch      = "batch"
	Allocation = "allocation"
)

// The files of a lost job.
const (
	jobFile         = "job.json"
	scriptFile      = "script"
	environmentFile = "environment"
)

// The bounds of what is kept. The oldest go first.
const (
	mostLost  = 10000
	mostBytes = 256 << 20
	mostAge   = 30 * 24 * time.Hour
)

// load reads the jobs that were lost before, and drops what is too old or too much.
func (s *Store) load(root *os.Root) {
	var all []Job
	sizes := map[uint32]int64{}
	for _, id := range lostIDs(root) {
		job, err := readJob(root, id)
		if err != nil {
			continue // it is to be judged
		}
		for _, name := range []string{scriptFile, environmentFile} {
			if info, err := root.Stat(path.Join(placeOf(id), name)); err == nil {
				sizes[id] += info.Size()
			}
		}
		all = append(all, job)
	}
	slices.SortFunc(all, func(a, b Job) int { return cmp.Or(b.Found.Compare(a.Found), cmp.Compare(b.ID, a.ID)) })
	kept, bytes := 0, int64(0)
	for _, job := range all {
		bytes += sizes[job.ID]
		if kept >= mostLost || bytes > mostBytes || time.Since(job.Found) > mostAge {
			_ = root.RemoveAll(placeOf(job.ID))
			continue
		}
		all[kept] = job
		kept++
	}
	all = all[:kept]
	slices.Reverse(all) // the oldest first
	s.lock.Lock()
	defer s.lock.Unlock()
	s.lost = all
}

func placeOf(id uint32) string { return path.Join(lostName, strconv.FormatUint(uint64(id), 10)) }

// lostIDs are the ids of all that is kept.
func lostIDs(root *os.Root) (ids []uint32) {
	entries, _ := fs.ReadDir(root.FS(), lostName) // what is not there is empty
	for _, e := range entries {
		if id, err := strconv.ParseUint(e.Name(), 10, 32); err == nil && e.IsDir() {
			ids = append(ids, uint32(id))
		}
	}
	return ids
}

func readJob(root *os.Root, id uint32) (Job, error) {
	var job Job
	text, err := root.ReadFile(path.Join(placeOf(id), jobFile))
	if err == nil {
		err = json.Unmarshal(text, &job)
	}
	return job, err
}

// suspects are the jobs that slurmctld may have lost: those whose files were kept before its start, and those whose
// acknowledgement was heard since its last save.
func (s *Store) suspects(root *os.Root, c *crash) map[uint32]Job {
	all := map[uint32]Job{}
	for _, id := range lostIDs(root) {
		if _, err := readJob(root, id); err == nil {
			continue
		}
		all[id] = s.described(root, id)
	}
	for _, h := range c.jobs {
		job, kept := all[h.id]
		if !kept && h.acknowledged.IsZero() {
			continue // a task of an array, which is lost with the array or not at all
		}
		if !kept {
			job = Job{ID: h.id, Name: h.name, Kind: Allocation}
		}
		if h.batch {
			job.Kind = Batch
		}
		if !h.acknowledged.IsZero() {
			job.Submitted = h.acknowledged
		}
		job.Nodes = h.nodes
		all[h.id] = job
	}
	return all
}

// described is what the kept files say of a batch job.
func (s *Store) described(root *os.Root, id uint32) Job {
	place := placeOf(id)
	job := Job{ID: id, Name: strconv.FormatUint(uint64(id), 10), Kind: Batch}
	if info, err := root.Stat(path.Join(place, scriptFile)); err == nil {
		job.Script, job.Submitted = filepath.Join(root.Name(), place, scriptFile), info.ModTime()
	}
	text, err := root.ReadFile(path.Join(place, environmentFile))
	if err != nil || len(text) < 4 {
		return job
	}
	// A count, and then each variable with a NUL behind it (write_data_array_to_file in src/slurmctld/job_mgr.c).
	for entry := range bytes.SplitSeq(text[4:], []byte{0}) {
		name, value, _ := strings.Cut(string(entry), "=")
		switch name {
		case "SLURM_JOB_USER", "USER", "LOGNAME":
			job.User = cmp.Or(job.User, shown(value))
		case "SLURM_JOB_NAME":
			job.JobName = shown(value)
		case "SLURM_SUBMIT_DIR":
			job.Directory = shown(value)
		}
	}
	return job
}

// shown is a value that a user has chosen, made fit for a line.
func shown(value string) string {
	const most = 256
	value = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(value, "?"))
	return value[:min(len(value), most)]
}

// Lost are the jobs that crashes have lost and that nobody has dealt with, Again those that run again because the last
// crash has lost their start.
func (s *Store) Lost() (lost, again []Job) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.lost, s.again
}

// Unlocked is why no lock keeps other slurmctlds off, empty when one does.
func (s *Store) Unlocked() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.unlocked
}

// LostDir is where the lost jobs are, empty before slurmctld's first start.
func (s *Store) LostDir() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.dir == "" {
		return ""
	}
	return filepath.Join(s.dir, lostName)
}

// Reread looks which of the lost jobs are still there: somebody removes the directories of those that are dealt with.
func (s *Store) Reread() error {
	s.lock.Lock()
	dir := s.dir
	s.lock.Unlock()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	s.load(root)
	return nil
}

// States says in which state slurmctld has jobs, by the ids that users see (7, 7_2) and by their own ids. Jobs that it
// does not know are left out.
type States func(ids []string) (map[string]string, error)

// Judge finds the jobs that the last crash has lost, once slurmctld serves. An error says that slurmctld has not answered,
// and Judge is to be called again.
func (s *Store) Judge(states States) (lost, again []Job, err error) {
	s.lock.Lock()
	c, dir := s.crash, s.dir
	s.lock.Unlock()
	if c == nil {
		return nil, nil, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	suspects := s.suspects(root, c)
	known := map[string]string{}
	if names := namesOf(suspects, c); len(names) > 0 {
		if known, err = states(names); err != nil {
			return nil, nil, err
		}
	}
	now := time.Now()
	for _, job := range suspects {
		if known[job.Name] != "" || known[strconv.FormatUint(uint64(job.ID), 10)] != "" {
			err = errors.Join(err, ignoreMissing(root.RemoveAll(placeOf(job.ID))))
			continue
		}
		job.Found = now
		err = errors.Join(err, s.record(root, job))
		lost = append(lost, job)
	}
	for _, h := range c.jobs {
		if !h.started.IsZero() && h.started.After(c.saved) && known[h.name] == "PENDING" {
			again = append(again, Job{ID: h.id, Name: h.name, Kind: Batch, Nodes: h.nodes, Found: now})
		}
	}
	byID := func(a, b Job) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(lost, byID)
	slices.SortFunc(again, byID)
	s.load(root)
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.crash == c {
		s.crash, s.again = nil, again
	}
	return lost, again, err
}

// namesOf are the jobs whose states matter.
func namesOf(suspects map[uint32]Job, c *crash) []string {
	names := map[string]bool{}
	for _, job := range suspects {
		names[job.Name] = true
	}
	for _, h := range c.jobs {
		names[h.name] = true
	}
	all := make([]string, 0, len(names))
	for name := range names {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// record writes down a lost job. Its script becomes a file that sbatch takes: slurmctld ends it with a NUL.
func (s *Store) record(root *os.Root, job Job) error {
	place := placeOf(job.ID)
	if err := errors.Join(s.mkdir(root, lostName, 0o700), s.mkdir(root, place, 0o700)); err != nil {
		return err
	}
	script := path.Join(place, scriptFile)
	if text, err := root.ReadFile(script); err == nil {
		// The link's file may still be slurmctld's: another one takes its place.
		if err := s.write(root, script, string(bytes.TrimRight(text, "\x00"))); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(job, "", "  ")
	if err == nil {
		err = s.write(root, path.Join(place, jobFile), string(text)+"\n")
	}
	return err
}
