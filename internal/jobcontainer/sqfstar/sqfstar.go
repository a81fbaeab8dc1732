// Package sqfstar has Debian's program sqfstar write a squashfs file of a tar, as the user who runs it.
package sqfstar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Find returns the program's path.
func Find() (string, error) {
	path, err := exec.LookPath("sqfstar")
	if err != nil { // a job may have any PATH
		path, err = exec.LookPath("/usr/bin/sqfstar")
	}
	if err != nil {
		return "", errors.New("a squashfs file needs sqfstar here (Debian's package squashfs-tools)")
	}
	return path, nil
}

// Cancelled says whether a write has failed because somebody has ended the program: Slurm signals all processes of a
// step at once.
func Cancelled(err error) bool {
	return endedBy(err, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
}

// endedBy says whether one of these signals has ended a program.
func endedBy(err error, signals ...syscall.Signal) bool {
	exit, is := errors.AsType[*exec.ExitError](err)
	if !is {
		return false
	}
	status, is := exit.Sys().(syscall.WaitStatus)
	return is && status.Signaled() && slices.Contains(signals, status.Signal())
}

// memory is what sqfstar may use for its queues, in MiB. Of itself it takes a quarter of the machine's.
const memory = 256

// pipeSize is what the pipe to the program may hold: the most that Linux gives a user.
const pipeSize = 1 << 20

// Write has the program write what feed gives it as a tar to a file, which errors call name. lz4 costs little time, and a
// reader of the file less than a disk. All files are root's in it. Where feed fails, the program is killed, because it
// would make a file of half the tar.
func Write(ctx context.Context, program, name string, to *os.File, feed func(io.Writer) error) error {
	const handed = 3 // the first of ExtraFiles
	cmd := exec.CommandContext(ctx, program, "-comp", "lz4", "-all-root", "-root-mode", "0755", "-default-mode", "0755", "-force",
		"-no-progress", "-quiet", "-processors", strconv.Itoa(runtime.GOMAXPROCS(0)), "-mem", strconv.Itoa(memory)+"M",
		fmt.Sprintf("/proc/self/fd/%d", handed))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.ExtraFiles = []*os.File{to}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", program, err)
	}
	widen(input)
	buffered := writer{to: input, has: make([]byte, 0, most)}
	if err = feed(&buffered); err == nil {
		err = buffered.end()
	}
	if failed := input.Close(); err == nil && !errors.Is(failed, os.ErrClosed) {
		err = failed
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	if failed := cmd.Wait(); failed != nil || err != nil {
		if failed != nil {
			err = nil // that it read no more
		}
		if endedBy(failed, syscall.SIGKILL) && ctx.Err() == nil {
			return fmt.Errorf("cannot write %s: %s: %w, as where memory is short: it takes up to %d MiB", name, program, failed, memory)
		}
		return fmt.Errorf("cannot write %s: %s: %w: %s", name, program, errors.Join(failed, err), strings.TrimSpace(said.String()))
	}
	return nil
}

// widen has a pipe hold more. One that cannot serves, too.
func widen(pipe io.Writer) {
	file, is := pipe.(*os.File)
	if !is {
		return
	}
	if raw, err := file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
	}
}
