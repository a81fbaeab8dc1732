package rootfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/options"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/save"
)

// Enter has a holder make the container, and returns what the plugin is to be answered. The container lives until
// lifeline is closed at its other end; a container that runs already is joined. Enter must be called on the main
// thread: the holder dies with it until the container is ready.
func Enter(s Spec, lifeline *os.File) ([]byte, error) {
	if s.Save != "" {
		if err := save.Check(s.Save); err != nil { // before the work whose result it is to keep
			return nil, err
		}
	}
	if s.Name == "" && !options.IsPath(s.Image) { // the holder starts while the registry is asked
		h, err := s.begin(lifeline, nil)
		if err != nil {
			return nil, err
		}
		defer h.end()
		if err := s.findImage(s.Image); err != nil {
			return nil, err
		}
		defer s.held.Close() // the holder has its own by then
		return h.finish(s)
	}
	lock, running, err := s.find()
	if err != nil {
		return nil, err
	}
	if running != nil {
		return s.joined(running)
	}
	if lock != nil {
		defer lock.Close()
	}
	if s.held != nil {
		defer s.held.Close()
	}
	h, err := s.begin(lifeline, lock)
	if err != nil {
		return nil, err
	}
	defer h.end()
	reply, err := h.finish(s)
	if err == nil && lock != nil {
		err = s.keepReply(reply)
	}
	return reply, err
}

// find finds the image or the container that the step wants. It returns the lock of a container with a name that is to
// be started, or the answer of the holder of one that runs.
func (s *Spec) find() (lock *os.File, running []byte, err error) {
	if s.Name == "" {
		return nil, nil, s.findImage(s.Image)
	}
	if running, err := s.joinStep(); err != nil || running != nil {
		return nil, running, err
	}
	return s.open()
}

// holder is a process in namespaces of its own that waits to be told what to make there.
type holder struct {
	cmd    *exec.Cmd
	spec   io.WriteCloser
	answer *os.File
	holds  bool
}

func (s Spec) begin(lifeline, lock *os.File) (*holder, error) {
	answer, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot start the container: %w", err)
	}
	defer write.Close()
	h := &holder{answer: answer}
	if h.cmd, err = s.holderCommand(write, lifeline, lock); err == nil {
		h.spec, err = h.cmd.StdinPipe()
	}
	if err == nil {
		err = h.cmd.Start()
	}
	if err != nil {
		_ = answer.Close()
		return nil, explain("cannot make namespaces for the container", err)
	}
	return h, nil
}

// finish has the holder make the container, and returns its answer.
func (h *holder) finish(s Spec) ([]byte, error) {
	text, err := s.encode()
	if err == nil {
		_, err = h.spec.Write(text)
	}
	if failed := h.spec.Close(); err == nil {
		err = failed
	}
	if err != nil && !errors.Is(err, unix.EPIPE) { // it has ended, and has said why
		return nil, fmt.Errorf("cannot start the container: %w", err)
	}
	reply, err := io.ReadAll(h.answer)
	if err == nil && len(reply) == 0 {
		err = ErrReported
	}
	h.holds = err == nil
	return reply, err
}

// end ends a holder that holds nothing.
func (h *holder) end() {
	_ = h.answer.Close()
	if !h.holds {
		_ = h.spec.Close()
		_ = h.cmd.Wait()
	}
}

// ErrReported is the error of a holder that has printed what failed.
var ErrReported = errors.New("the container did not start")

// Hold is the argument with which the program becomes a holder.
const Hold = "hold"

// The files of a holder.
const (
	replyFD    = 3
	lifelineFD = 4
	// lastFD is the last one: a name's lock.
	lastFD = 5
)

// holderCommand is this program as the container's holder, in namespaces of its own.
func (s Spec) holderCommand(reply, lifeline, lock *os.File) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot start the container: %w", err)
	}
	cmd := exec.Command(self, Hold)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{reply, lifeline}
	if lock != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, lock) // locked for as long as the holder lives
	}
	uid, gid := s.UID, s.GID
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, Setsid: true, Pdeathsig: unix.SIGKILL}
	if s.RemapRoot {
		uid, gid = 0, 0
	} else if uid != 0 {
		attr.AmbientCaps = s.capabilities()
	}
	for _, kind := range s.Unshare {
		attr.Cloneflags |= map[string]uintptr{"net": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS}[kind]
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: s.UID, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: s.GID, Size: 1}}
	cmd.SysProcAttr = attr
	return cmd, nil
}

// joined is the answer for a container of another step: only the working directory is this step's own.
func (s Spec) joined(reply []byte) ([]byte, error) {
	fields := bytes.SplitN(reply, []byte{0}, 6)
	if len(fields) < 6 {
		return nil, fmt.Errorf("the container %s runs, and does not say what it is", s.Name)
	}
	has := strings.Fields(string(fields[2]))
	for _, kind := range s.Unshare {
		if !slices.Contains(has, kind) {
			return nil, fmt.Errorf("--container-unshare=%s: the container %s runs already, and has the node's", kind, s.Name)
		}
	}
	if len(s.Mounts) > 0 {
		fmt.Fprintf(os.Stderr, "slurmlet: the container %s runs already: --container-mounts is ignored\n", s.Name)
	}
	fields[0] = []byte("JOINED")
	if s.Workdir != "" {
		fields[4] = []byte(s.Workdir)
	}
	return bytes.Join(fields, []byte{0}), nil
}

func (s Spec) keepReply(reply []byte) error {
	path := filepath.Join(s.nameDir(), "reply")
	err := os.WriteFile(filepath.Join(s.nameDir(), "processes"), []byte(processes()), 0o600)
	if err == nil {
		err = os.WriteFile(path+".new", reply, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("cannot keep the container %s: %w", s.Name, err)
	}
	return nil
}
