package rootfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/options"
)

// Below the store, UID/NAME has the files of a container with a name: lock, which its holder keeps locked; reply, what
// its holder has answered, while it runs, and processes, the namespace of its number; image, the path of its image, or
// the name of a registry's with its digest and, in a second line, as the user gave it; upper and work, its layer.

func (s Spec) userDir() string { return filepath.Join(s.Store, strconv.Itoa(s.UID)) }

func (s Spec) nameDir() string { return filepath.Join(s.userDir(), s.Name) }

// open takes the container of the spec's name. It returns the lock where the container is to be started, and the
// answer of its holder where it runs already.
func (s *Spec) open() (lock *os.File, running []byte, err error) {
	dir := s.nameDir()
	was := exists(filepath.Join(dir, "image"))
	switch {
	case s.NameMode == options.Create && was:
		return nil, nil, fmt.Errorf("--container-name=%s:create: there is one on this node; `slurmlet-container rm %s` removes it",
			s.Name, s.Name)
	case !was && s.Image == "":
		return nil, nil, fmt.Errorf("--container-name=%s: there is none on this node: want --container-image, too", s.Name)
	}
	// before the lock, for which others wait less long than a pull may take
	if image := s.madeOf(); s.NameMode != options.Exec && image != "" && !options.IsPath(image) {
		if err := s.findImage(image); err != nil {
			return nil, nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("cannot keep the container %s: %w", s.Name, err)
	}
	lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot keep the container %s: %w", s.Name, err)
	}
	running, err = s.lockOrJoin(lock)
	if err != nil || running != nil {
		_ = lock.Close()
		return nil, running, err
	}
	return lock, nil, s.imageOfName()
}

// mostStarting bounds how long a step waits for another one that starts the same container.
const mostStarting = 2 * time.Minute

func (s *Spec) lockOrJoin(lock *os.File) ([]byte, error) {
	path := filepath.Join(s.nameDir(), "reply")
	for limit := time.Now().Add(mostStarting); ; {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil && s.NameMode == options.Exec:
			return nil, fmt.Errorf("--container-name=%s:exec: it does not run on this node", s.Name)
		case err == nil:
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("cannot start the container %s: %w", s.Name, err)
			}
			return nil, nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil, fmt.Errorf("cannot lock the container %s: %w", s.Name, err)
		case s.NameMode == options.NoExec || s.NameMode == options.Create:
			return nil, fmt.Errorf("--container-name=%s:%s: it runs on this node, and its files are one container's at a time",
				s.Name, s.NameMode)
		}
		if reply, err := os.ReadFile(path); err == nil {
			return reply, s.seesHolder()
		}
		if time.Now().After(limit) {
			return nil, fmt.Errorf("the container %s has not started within %v", s.Name, mostStarting)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// seesHolder is an error where the holder's number is one of another job's, which has processes of its own.
func (s *Spec) seesHolder() error {
	theirs, err := os.ReadFile(filepath.Join(s.nameDir(), "processes"))
	if own := processes(); err == nil && string(theirs) != own {
		return fmt.Errorf("the container %s runs in another job on this node, and jobs see no processes of others there "+
			"(private_processes)", s.Name)
	}
	return nil
}

// processes names the namespace of processes that this one is in.
func processes() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return err.Error()
	}
	return name
}

// imageOfName keeps the image that the container was made of: its layer fits no other. A registry's is kept by its
// digest, so that one that has left the cache is pulled again.
func (s *Spec) imageOfName() error {
	path := filepath.Join(s.nameDir(), "image")
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		image, given := parseMade(string(text))
		if s.Image != "" && filepath.Clean(s.Image) != image && s.Image != given {
			fmt.Fprintf(os.Stderr, "slurmlet: the container %s is there, and is made of %s\n", s.Name, image)
		}
		return s.findImage(image)
	}
	if s.pinned == "" {
		if err := s.findImage(s.Image); err != nil {
			return err
		}
	}
	kept := s.Lower
	if s.pinned != "" {
		kept = s.pinned + "\n" + s.Image
	}
	if err := os.WriteFile(path, []byte(kept), 0o600); err != nil {
		return fmt.Errorf("cannot keep the container %s: %w", s.Name, err)
	}
	return nil
}

// madeOf is the image that the container was made of, or is to be made of.
func (s *Spec) madeOf() string {
	text, err := os.ReadFile(filepath.Join(s.nameDir(), "image"))
	if err != nil || len(text) == 0 {
		return s.Image
	}
	image, _ := parseMade(string(text))
	return image
}

// parseMade reads the file image of a name. A path may have a line break, and a registry's image has none.
func parseMade(text string) (image, given string) {
	if options.IsPath(text) {
		return text, ""
	}
	image, given, _ = strings.Cut(text, "\n")
	return image, given
}

// Named is a container that a user has on this node.
type Named struct {
	Name    string `json:"name"`
	Image   string `json:"image"`
	Running bool   `json:"running"`
}

// List returns a user's containers on this node, by name.
func List(store string, uid int) ([]Named, error) {
	dir := filepath.Join(store, strconv.Itoa(uid))
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot list containers: %w", err)
	}
	var all []Named
	for _, e := range entries {
		image, err := os.ReadFile(filepath.Join(dir, e.Name(), "image"))
		if err == nil {
			made, _ := parseMade(string(image))
			all = append(all, Named{e.Name(), made, isLocked(filepath.Join(dir, e.Name(), "lock"))})
		}
	}
	return all, nil
}

func isLocked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// Remove removes a user's container from this node. One that runs stays.
func Remove(store string, uid int, name string) error {
	all, err := List(store, uid)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(n Named) bool { return n.Name == name })
	switch {
	case i < 0:
		return fmt.Errorf("there is no container %q on this node", name)
	case all[i].Running:
		return fmt.Errorf("the container %s runs", name)
	}
	dir := filepath.Join(store, strconv.Itoa(uid), name)
	// The kernel leaves directories in work that their owner cannot read.
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() && err != nil {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("cannot remove the container %s: %w", name, err)
	}
	return nil
}

// encode is how a spec goes to the holder.
func (s Spec) encode() ([]byte, error) { return json.Marshal(s) }
