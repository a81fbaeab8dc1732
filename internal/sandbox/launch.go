package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// launcher is PID 1 of a sandbox's own pid namespace, as the host sees it.
// Everything of the sandbox ends with it.
type launcher struct {
	pid int
	// start is the time it was started, in clock ticks after boot: with the pid
	// it names one process for ever.
	start string
	// ended is closed when it ended, if it is this process's child.
	ended chan struct{}
}

const launcherFile = "launcher"

// The parts of `slurmlet-sandbox` that Up starts again.
const (
	VerbGuest  = "launch-guest"
	VerbNative = "launch-native"
)

// launch starts the launcher in namespaces of its own. Its output goes to console.
func (s *Sandbox) launch(verb string) error {
	console, err := os.OpenFile(s.Console(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("cannot launch sandbox: %v", err)
	}
	defer console.Close()
	cmd := exec.Command(s.options.Binary, verb, s.boot())
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &unix.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot launch sandbox: %v", err)
	}
	l := &launcher{pid: cmd.Process.Pid, ended: make(chan struct{})}
	s.launcher = l // a second attempt has another
	go func() {
		_ = cmd.Wait() // how it ended is on the console
		close(l.ended)
	}()
	return l.write(s.dir)
}

func (l *launcher) write(dir string) (err error) {
	if l.start, err = startTime(l.pid); err != nil {
		return err
	}
	line := fmt.Sprintf("%d %s\n", l.pid, l.start)
	if err := os.WriteFile(filepath.Join(dir, launcherFile), []byte(line), 0o600); err != nil {
		return fmt.Errorf("cannot note the launcher: %v", err)
	}
	return nil
}

// readLauncher returns nil if none was ever started in dir.
func readLauncher(dir string) (*launcher, error) {
	data, err := os.ReadFile(filepath.Join(dir, launcherFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find the launcher: %v", err)
	}
	l := &launcher{}
	if _, err := fmt.Sscan(string(data), &l.pid, &l.start); err != nil {
		return nil, fmt.Errorf("cannot read the launcher's note: %v", err)
	}
	return l, nil
}

// alive tells whether the process still runs; a zombie does not.
func (l *launcher) alive() bool {
	start, err := startTime(l.pid)
	return err == nil && start == l.start
}

// kill ends the launcher, and with it all of its pid namespace.
func (l *launcher) kill() error {
	fd, err := unix.PidfdOpen(l.pid, 0)
	if err != nil || !l.alive() { // alive: the one that the descriptor now holds
		return nil
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("cannot kill the launcher: %v", err)
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, int((30 * time.Second).Milliseconds())); err != nil || n == 0 {
		return fmt.Errorf("cannot wait for the launcher's end: %v", err)
	}
	if l.ended != nil {
		<-l.ended
	}
	return nil
}

// startTime is field 22 of /proc/pid/stat (proc(5)), counted from behind the
// command's name, which may hold anything.
func startTime(pid int) (string, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", fmt.Errorf("cannot look at process %d: %v", pid, err)
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return fields[19], nil
}
