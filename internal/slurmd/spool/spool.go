// Package spool looks at the sockets of a node's steps.
//
// slurmstepd listens on <node>_<job>.<step> in slurmd's spool directory, and removes the socket when it ends. That of one
// which was killed stays, and nobody answers.
package spool

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Dir is the spool directory of one node's slurmd (SlurmdSpoolDir).
type Dir struct {
	path, node string
	// hangs: the file system of the directory does not answer.
	hangs atomic.Bool
}

// New is the directory at a path, which slurmd may have to make yet.
func New(path, node string) *Dir { return &Dir{path: path, node: node} }

// Path returns the directory's path on this machine.
func (d *Dir) Path() string { return d.path }

// Steps are those that run here, as <job>.<step>.
func (d *Dir) Steps() []string {
	living, _ := d.Sockets()
	return living
}

// Unknown stands for the steps of a directory whose file system does not answer. It counts as one that lives.
const Unknown = "?"

// socketsLimit bounds a look at the directory.
const socketsLimit = 5 * time.Second

// Sockets are the steps that run here, and those that have left their sockets.
func (d *Dir) Sockets() (living, dead []string) {
	if d.hangs.Load() {
		return []string{Unknown}, nil // somebody waits for it still
	}
	looked := make(chan struct{})
	var l, gone []string
	go func() {
		l, gone = d.look()
		close(looked)
	}()
	select {
	case <-looked:
		return l, gone
	case <-time.After(socketsLimit):
	}
	d.hangs.Store(true)
	go func() {
		<-looked
		d.hangs.Store(false)
	}()
	return []string{Unknown}, nil
}

func (d *Dir) look() (living, dead []string) {
	for _, step := range d.Names() {
		if answers(d.Socket(step)) {
			living = append(living, step)
		} else {
			dead = append(dead, step)
		}
	}
	return living, dead
}

// Socket is the path of a step's socket.
func (d *Dir) Socket(step string) string { return filepath.Join(d.path, d.node+"_"+step) }

// StepOf is the step whose socket a path is.
func (d *Dir) StepOf(path string) (step string, is bool) {
	step, is = strings.CutPrefix(filepath.Base(path), d.node+"_")
	return step, is && filepath.Dir(path) == d.path
}

// IsNew says whether no slurmd has used the directory: slurmd leaves files there.
func (d *Dir) IsNew() bool {
	entries, err := os.ReadDir(d.path)
	used := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != "lost+found" }) // a file system's own
	return !used && (err == nil || errors.Is(err, os.ErrNotExist))
}

// Names are the steps of all sockets, whether somebody listens or not.
func (d *Dir) Names() []string {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil // slurmd has not made it
	}
	var all []string
	for _, entry := range entries {
		if step, ours := strings.CutPrefix(entry.Name(), d.node+"_"); ours && entry.Type() == os.ModeSocket {
			all = append(all, step)
		}
	}
	return all
}

// answers says whether somebody listens on a socket. Only a refusal means that
// nobody does.
func answers(path string) bool {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
	}
	return !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOENT)
}

// HasNoTask says whether the slurmstepd of a step lives and has no child; busy are the processes that have. What cannot
// be found out is taken for a task.
func (d *Dir) HasNoTask(step string, busy func() map[int]bool) bool {
	pid := listener(d.Socket(step))
	return pid > 1 && len(busy()) > 0 && !busy()[pid]
}

// listener is the process that has begun to listen on a socket (unix(7), SO_PEERCRED), 0 where it is not known.
func listener(path string) (pid int) {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if of, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(of.Pid)
		}
	})
	return pid
}
