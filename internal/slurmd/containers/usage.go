package containers

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what containers and their images take. What is counted is users' own: they can make the counts wrong, and
// nothing else. Nothing that they have written is read but the names of files and processes.
type Usage struct {
	// Running are the containers that run, by the names of the processes that hold them.
	Running int `json:"running"`
	// Images are the files of registries' images, of all users together, and ImageBytes what they take of the disk.
	Images     int   `json:"images"`
	ImageBytes int64 `json:"imageBytes"`
	// Free are the bytes that the file system has for more.
	Free int64 `json:"free"`
	// Uncounted: there is more than an agent counts.
	Uncounted bool `json:"uncounted,omitempty"`
}

func (u *Usage) String() string {
	more := ""
	if u.Uncounted {
		more = " or more"
	}
	const gb = 1e9
	return fmt.Sprintf("%d run; %d images%s with %.1f GB, and %.1f GB are free", u.Running, u.Images, more,
		float64(u.ImageBytes)/gb, float64(u.Free)/gb)
}

const (
	// lookEvery is how often the agent looks at most, whoever asks.
	lookEvery = 10 * time.Second
	// mostEntries bounds how many names of the users' directories are looked at together, and mostUsers the directories.
	mostEntries, mostUsers = 4096, 4096
	// storeDir is where a node keeps containers (cmd/slurmlet-container).
	storeDir = "var/lib/slurmlet/containers"
	// holder is the name of a process that holds a container, as proc_pid_comm(5) has it, and hold its argument.
	holder, hold = "slurmlet-contai", "hold"
)

// Store is the node's directory of containers.
type Store struct {
	// Root is where the machine's file system begins.
	Root string

	mu     sync.Mutex
	looked time.Time
	last   *Usage
}

// Look counts what is there, or returns what it counted a moment ago.
func (s *Store) Look() *Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || time.Since(s.looked) > lookEvery {
		s.last = s.count()
		s.looked = time.Now()
	}
	return s.last
}

func (s *Store) count() *Usage {
	u := &Usage{Running: countHolders(filepath.Join(s.Root, "proc"))}
	dir := filepath.Join(s.Root, storeDir)
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) == nil {
		u.Free = int64(fs.Bavail) * fs.Bsize
	}
	images, err := openDir(unix.AT_FDCWD, filepath.Join(dir, "images"))
	if err != nil {
		return u // no step has pulled an image
	}
	defer images.Close()
	users, more := names(images, mostUsers)
	u.Uncounted = more
	left := mostEntries
	for _, user := range users {
		uid, err := strconv.ParseUint(user, 10, 32)
		if err != nil {
			continue
		}
		left = u.countImages(int(images.Fd()), user, uint32(uid), left)
	}
	return u
}

// countImages counts the files of one user, and returns how many names may still be looked at. A file with two names
// would count twice, so that one with several is left out.
func (u *Usage) countImages(images int, user string, uid uint32, left int) int {
	dir, err := openDir(images, user)
	if err != nil {
		return left
	}
	defer dir.Close()
	all, more := names(dir, left)
	u.Uncounted = u.Uncounted || more
	for _, name := range all {
		var st unix.Stat_t
		if !strings.HasSuffix(name, ".sqsh") || unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Uid == uid && st.Nlink == 1 {
			u.Images++
			u.ImageBytes += st.Blocks * 512
		}
	}
	return left - len(all)
}

// openDir opens a directory that is none by a symbolic link.
func openDir(at int, path string) (*os.File, error) {
	fd, err := unix.Openat(at, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// names are so many of a directory's names at most, and whether there are more.
func names(dir *os.File, most int) (all []string, more bool) {
	if most <= 0 {
		return nil, true
	}
	all, _ = dir.Readdirnames(most) // what could be read counts
	if len(all) < most {
		return all, false
	}
	rest, _ := dir.Readdirnames(1)
	return all, len(rest) > 0
}

// countHolders counts processes that are called as a holder is.
func countHolders(proc string) (count int) {
	entries, _ := os.ReadDir(proc) // without it, none is known
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		if begins(filepath.Join(proc, e.Name(), "comm"), holder+"\n") && isHold(filepath.Join(proc, e.Name(), "cmdline")) {
			count++
		}
	}
	return count
}

func begins(path, text string) bool { return bytes.HasPrefix(head(path), []byte(text)) }

// isHold says whether a command line has the holder's argument and no other. One that has ended has none.
func isHold(path string) bool {
	_, argument, _ := bytes.Cut(head(path), []byte{0})
	return string(argument) == hold+"\x00"
}

// head is the beginning of a file.
func head(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	text := make([]byte, 512)
	n, _ := io.ReadFull(f, text) // what there is
	return text[:n]
}
