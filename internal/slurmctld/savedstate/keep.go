package savedstate

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// jobDir is the directory of a batch job: hash.N/job.ID, with its script and its environment. An array has one.
type jobDir struct {
	id   uint32
	path string
}

// jobDirs lists the directories of all batch jobs.
func jobDirs(root *os.Root) (all []jobDir, err error) {
	top, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, hash := range top {
		if !strings.HasPrefix(hash.Name(), "hash.") || !hash.IsDir() {
			continue
		}
		jobs, err := fs.ReadDir(root.FS(), hash.Name())
		if err != nil {
			return nil, err
		}
		for _, job := range jobs {
			text, found := strings.CutPrefix(job.Name(), "job.")
			if id, err := strconv.ParseUint(text, 10, 32); found && err == nil && job.IsDir() {
				all = append(all, jobDir{uint32(id), path.Join(hash.Name(), job.Name())})
			}
		}
	}
	slices.SortFunc(all, func(a, b jobDir) int { return cmp.Compare(a.id, b.id) })
	return all, nil
}

const (
	// mostCandidates bounds what is done before slurmctld starts.
	mostCandidates = 20000
	// young is by how much the clock of the volume's machine may be behind ours.
	young = time.Minute
)

// keep links the files of the jobs that slurmctld may not know, those that came after its last save, to where it does not
// look. A link costs no space. The newest are kept where there are too many.
func (s *Store) keep(root *os.Root, jobs []jobDir, saved time.Time) (kept, left int) {
	if err := s.mkdir(root, lostName, 0o700); err != nil {
		return 0, len(jobs)
	}
	for _, job := range slices.Backward(jobs) {
		info, err := root.Stat(job.path)
		if err != nil || info.ModTime().Before(saved.Add(-young)) {
			continue
		}
		if kept >= mostCandidates || s.keepOne(root, job) != nil {
			left++
			continue
		}
		kept++
	}
	return kept, left
}

func (s *Store) keepOne(root *os.Root, job jobDir) error {
	place := path.Join(lostName, strconv.FormatUint(uint64(job.id), 10))
	if _, err := root.Lstat(path.Join(place, jobFile)); err == nil {
		return errors.New("a job of this id was lost before") // its files stay
	}
	if err := s.mkdir(root, place, 0o700); err != nil {
		return err
	}
	for _, name := range []string{scriptFile, environmentFile} {
		to := path.Join(place, name)
		if err := ignoreMissing(root.Remove(to)); err != nil {
			return err
		}
		err := s.link(root, path.Join(job.path, name), to)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a job of sbatch --export=NIL has none, or slurmctld was killed before it wrote it
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// link gives a file a second name, and copies it where the file system has no links.
func (s *Store) link(root *os.Root, from, to string) error {
	err := root.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	in, err := root.OpenFile(from, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	return s.writeAll(root, to, in)
}
