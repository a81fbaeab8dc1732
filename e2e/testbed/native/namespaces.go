// Package native runs Slurm clusters on this machine's own kernel, in namespaces
// (PID, mount, network, UTS) that end with the program that made them, however
// it ends: no process, mount, interface or file is left of them. That takes root.
// The machine's cgroups are neither seen nor touched, but for one that a Node was
// given.
package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Enter runs this program again, with settings as JSON in the environment, as PID 1 of
// its own namespaces: whatever it leaves behind dies with it, and it dies with
// us.
func Enter(ctx context.Context, settings any) error {
	text, err := json.Marshal(settings)
	if err != nil {
		return fmt.Errorf("cannot write the settings: %w", err)
	}
	// The kernel counts the end of the thread that started it as ours (prctl(2),
	// PR_SET_PDEATHSIG).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Geteuid() != 0 {
		return errors.New("cannot make namespaces: not root")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find our own program: %w", err)
	}
	cause, told, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot hear what fails: %w", err)
	}
	defer cause.Close()
	defer told.Close()
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), settingsVariable+"="+string(text))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{told} // causeFD
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS,
		Pdeathsig:  unix.SIGKILL,
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if why := heard(cause, told); why != "" {
			return errors.New(why)
		}
		return fmt.Errorf("cannot finish: %w", err)
	}
	return nil
}

const (
	settingsVariable = "SLURMLET_NATIVE_SETTINGS"
	// causeFD is where the program tells the one that has entered what has failed.
	causeFD = 3
	// mostTold fits into a pipe: nobody reads before the end.
	mostTold = 4 << 10
)

// tell tells the program that has entered what has failed.
func tell(failed error) {
	text := failed.Error()
	_, _ = os.NewFile(causeFD, "cause").WriteString(text[:min(len(text), mostTold)]) // it is on stderr too
}

// heard is what tell has told, after the end of all who could.
func heard(cause, told *os.File) string {
	_ = told.Close()
	text, _ := io.ReadAll(cause) // nothing is told then
	return string(text)
}

// Run ends the program after inside where Enter has run it, and returns elsewhere. inside has the
// settings that Enter was given, and namespaces that are furnished.
func Run[Settings any](inside func(Settings) error) {
	text, entered := os.LookupEnv(settingsVariable)
	if !entered {
		return
	}
	var s Settings
	err := json.Unmarshal([]byte(text), &s)
	unix.CloseOnExec(causeFD)
	if err == nil {
		err = furnishNamespaces()
	}
	if err == nil {
		err = inside(s)
	}
	if err != nil {
		tell(err)
	}
	exit(err)
}

// Scratch is a file system of the namespaces' own; nothing of it is left.
const Scratch = "/mnt"

// furnishNamespaces gives the namespaces what every machine has: /proc, a name, a network.
func furnishNamespaces() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot keep mounts to ourselves: %w", err)
	}
	for _, m := range []mount{{"proc", "/proc", 0, ""}, {"tmpfs", Scratch, 0, "mode=755"}} {
		if err := m.mount(); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte(Host)); err != nil {
		return fmt.Errorf("cannot set the host name: %w", err)
	}
	return network()
}

type mount struct {
	kind, target string
	flags        uintptr
	data         string
}

func (m mount) mount() error {
	if err := unix.Mount(m.kind, m.target, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("cannot mount %s on %s: %w", m.kind, m.target, err)
	}
	return nil
}

// KillAll ends every process of the namespace, whose PID 1 we are.
func KillAll() error {
	if os.Getpid() != 1 {
		panic("native: not in a namespace of its own")
	}
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot end all processes: %w", err)
	}
	return nil
}
