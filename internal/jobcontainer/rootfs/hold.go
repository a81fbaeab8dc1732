package rootfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/imagecache"
)

// RunHolder is the holder: it makes the container, says so, and keeps it until its lifeline is closed. It must be
// called on the main thread: squashfuse dies with that.
func RunHolder() error {
	for fd := replyFD; fd <= lastFD; fd++ {
		unix.CloseOnExec(fd)
	}
	var s Spec
	err := json.NewDecoder(os.Stdin).Decode(&s)
	if errors.Is(err, io.EOF) { // there is nothing to hold, and who has started this process says why
		return ErrReported
	}
	if err == nil && s.Cached != "" {
		s.held, err = imagecache.Cache{Dir: filepath.Dir(s.Lower)}.Hold(s.Cached) // for as long as this process lives
	}
	if err != nil {
		return fmt.Errorf("cannot read what to hold: %w", err)
	}
	return s.runHolder(os.NewFile(replyFD, "reply"), os.NewFile(lifelineFD, "lifeline"))
}

func (s *Spec) runHolder(reply, lifeline *os.File) error {
	// Slurm signals all of a step's processes. The container ends with its tasks, whatever they make of a signal.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
		syscall.SIGPIPE)
	answer, err := s.make()
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.answerFile(), answer, 0o600); err != nil {
		return fmt.Errorf("cannot keep what the container answers: %w", err)
	}
	if err := detach(); err != nil {
		return err
	}
	if _, err := reply.Write(answer); err != nil {
		return fmt.Errorf("cannot answer: %w", err)
	}
	_ = reply.Close()
	_, _ = io.Copy(io.Discard, lifeline) // until its other end is closed
	runtime.KeepAlive(s)                 // with the image's lock
	return nil
}

func (s *Spec) make() ([]byte, error) {
	if slices.Contains(s.Unshare, "net") {
		if err := raiseLoopback(); err != nil {
			return nil, fmt.Errorf("--container-unshare=net: cannot raise the loopback: %w", err)
		}
	}
	in, err := s.build()
	if err != nil {
		return nil, err
	}
	image, workdir := in.withDriver(readEnvironment(in.read("etc/environment"))), s.workdir(in)
	entrypoint := s.Entrypoint && in.has("etc/rc")
	// pivot_root(2) would move squashfuse onto the file system that it serves, and hang it for good.
	if err = unix.Fchdir(in.fd); err == nil {
		err = unix.Chdir(s.root())
	}
	if err == nil {
		err = unix.Mount(".", "/", "", unix.MS_MOVE, "")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make it the container's root: %w", err)
	}
	if entrypoint {
		type result struct {
			environment []string
			err         error
		}
		done := make(chan result)
		go func() {
			environment, err := s.runEntrypoint(image)
			done <- result{environment, err}
		}()
		r := <-done
		if r.err != nil {
			return nil, r.err
		}
		image = r.environment
	}
	root := ""
	if s.RemapRoot {
		root = "root"
	}
	kinds := strings.Join(append([]string{"user", "mnt"}, s.Unshare...), " ")
	environment := s.environment(image)
	if s.hasSlurm {
		environment = s.withSlurm(environment)
	}
	fields := append([]string{"OK", strconv.Itoa(os.Getpid()), kinds, root, workdir}, environment...)
	return []byte(strings.Join(fields, "\x00") + "\x00"), nil
}

// raiseLoopback has a new network namespace's own addresses answer.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// detach leaves the step's output and the process that has started this one.
func detach() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("cannot leave the step's output: %w", err)
	}
	for fd := range 3 {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return fmt.Errorf("cannot leave the step's output: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot outlive the start: %w", err)
	}
	return nil
}
