package process

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Output is one pipe that a daemon and everything it executes itself into write to; its lines go to the sink until the last holder
// has closed it.
type Output struct {
	read, write *os.File
	conn        syscall.RawConn // of read
	drained     chan struct{}

	mu     sync.Mutex // held while lines are delivered, so that Flush knows when they have been
	lines  splitter
	buffer [16 << 10]byte
}

// Line is one line of output. Its text has neither program name, time nor level in it.
type Line struct {
	Source string
	Level  slog.Level // LevelFatal at most
	Text   string     // valid UTF-8 without NUL, at most 64 KiB of what was written
}

// pipeSize is what anybody may ask for (pipe(7), pipe-max-size). It is worth having: Slurm's daemons throw a line away when the pipe
// stays full for some milliseconds, and others stand still.
const pipeSize = 1 << 20

// NewOutput opens the pipe and starts to read it. sink is called for one line after the other, and has to be quick.
func NewOutput(source string, sink func(Line)) (*Output, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("cannot open a pipe for the output of %s: %w", source, err)
	}
	// Our end alone is non-blocking: with the other end so (os.Pipe), daemons would lose what they write to a full pipe.
	_ = unix.SetNonblock(fds[0], true)
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeSize) // 64 KiB do too
	o := &Output{
		read: os.NewFile(uintptr(fds[0]), source), write: os.NewFile(uintptr(fds[1]), source), drained: make(chan struct{}),
		lines: splitter{emit: func(level slog.Level, text string) { sink(Line{source, level, text}) }},
	}
	conn, err := o.read.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, o.read.Close(), o.write.Close())
	}
	o.conn = conn
	go o.serve()
	return o, nil
}

// File is the write end, for Command.Stdout and Command.Stderr.
func (o *Output) File() *os.File { return o.write }

// Close closes our write end; the children keep theirs.
func (o *Output) Close() error { return o.write.Close() }

// Drained is closed when the last holder has closed the pipe and every line has been delivered.
func (o *Output) Drained() <-chan struct{} { return o.drained }

// Flush returns once every whole line that was in the pipe when it was called has been delivered: a daemon's end is often quicker
// than its last words, which explain it. The words of a line that nobody has ended are delivered too.
func (o *Output) Flush() {
	_ = o.conn.Control(func(fd uintptr) { o.drain(int(fd)) }) // closed: all was delivered
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines.flush()
}

func (o *Output) serve() {
	defer close(o.drained)
	_ = o.conn.Read(func(fd uintptr) bool { return o.drain(int(fd)) }) // the read end of a pipe has no error but its end
	_ = o.read.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines.flush()
}

// drain delivers what is in the pipe, and says whether its last holder has closed it.
func (o *Output) drain(fd int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		n, err := unix.Read(fd, o.buffer[:])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err != unix.EAGAIN
		case n == 0:
			return true
		default:
			_, _ = o.lines.Write(o.buffer[:n])
		}
	}
}
