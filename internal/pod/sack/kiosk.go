package sack

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// KioskOptions are the surroundings of a Kiosk.
type KioskOptions struct {
	// Root is where the machine's file system begins, and RunDir the agent's own directory.
	Root, RunDir string
	// HasKeys says whether the cluster has auth/slurm.
	HasKeys bool
	// ConfDir is where the daemon keeps the configuration that it fetches from slurmctld; empty: it fetches none.
	ConfDir string
	// Credential is the daemon's user, nil for the agent's. UID and GID are that user's in any case.
	Credential *syscall.Credential
	UID, GID   int
	// Environ returns the environment of a sackd.
	Environ func() []string
	Table   *process.Table
	// Heard gets the lines that a sackd logs.
	Heard func(process.Line)
	// Alive ends with the agent.
	Alive context.Context
	Log   func(level slog.Level, text string, attrs ...slog.Attr)
}

// Kiosk is who gives credentials at sack.socket: slurmd, or a login pod's sackd, or a sackd in the place of one that
// cannot. For another daemon it does nothing.
type Kiosk struct {
	KioskOptions
	// door is nil where the daemon's socket is its own.
	door *Door
	// sackd gives scontrol its credentials in the place of a slurmd that cannot be used; only one goroutine starts it.
	sackd  atomic.Pointer[process.Process]
	output func() (*process.Output, error)

	lock sync.Mutex
	// main is the main process's socket, of a daemon that is in service once opened is true.
	main   *Back
	opened bool
	// foreign: the daemon does not take the socket behind the door, and has made its own.
	foreign bool
	// substituted: a sackd is in the place of a daemon whose port is crowded. port tells who crowds it.
	substituted bool
	port        atomic.Pointer[string]
	accepted    accepted
}

// NewKiosk makes a Kiosk without a door.
func NewKiosk(o KioskOptions) *Kiosk {
	k := &Kiosk{KioskOptions: o}
	k.output = sync.OnceValues(func() (*process.Output, error) { return process.NewOutput("sackd", o.Heard) })
	return k
}

// Open makes the door. Where the agent cannot act for its users, the daemon makes its own socket: then everybody in the
// pod has the agent's uid, or the pod's capabilities are few.
func (k *Kiosk) Open() error {
	if !k.HasKeys || os.Geteuid() != 0 {
		return nil
	}
	path := k.socketPath()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	door, err := New(Options{Path: path, Dir: filepath.Join(k.RunDir, "sack"), UID: k.UID, GID: k.GID, Log: k.Log, Slow: k.relieve})
	if err != nil {
		k.Log(slog.LevelWarn,
			"users' silent connections are not bounded: cannot connect to the daemon's socket for them", slog.Any("error", err))
		return nil
	}
	k.door = door
	return nil
}

// socketPath returns the path at which users' commands connect.
func (k *Kiosk) socketPath() string { return filepath.Join(k.Root, Path) }

// behind gives a daemon its socket behind the door; nil without one.
func (k *Kiosk) behind(c *process.Command) (*Back, error) {
	if k.door == nil {
		return nil, nil
	}
	back, err := k.door.NewBack()
	if err != nil {
		return nil, err
	}
	c.Stdin, c.Env = back.Listener, append(c.Env, Env)
	return back, nil
}

// start starts a process with a socket behind the door; the socket is nil without one.
func (k *Kiosk) start(c process.Command) (*process.Process, *Back, error) {
	back, err := k.behind(&c)
	if err != nil {
		return nil, nil, err
	}
	p, err := k.Table.Start(c)
	if back == nil {
		return p, nil, err
	}
	if err != nil {
		back.Close()
		return nil, nil, err
	}
	_ = back.Listener.Close() // the process has it
	return p, back, nil
}

// Start starts the daemon. Users are let in to it at Ready.
func (k *Kiosk) Start(c process.Command) (*process.Process, error) {
	p, back, err := k.start(c)
	if back == nil {
		return p, err
	}
	k.lock.Lock()
	defer k.lock.Unlock()
	k.main, k.opened, k.foreign = back, false, false
	return p, nil
}

// Ready lets users in: the daemon is in service, or has handed its socket over to its successor.
func (k *Kiosk) Ready() {
	k.lock.Lock()
	defer k.lock.Unlock()
	if k.main == nil || k.opened {
		return
	}
	k.opened = true
	if k.substituted {
		return // it goes on until the crowd is over
	}
	if k.door.At() == nil && speaks(k.socketPath()) {
		k.Log(slog.LevelWarn, "users' silent connections are not bounded: the daemon has made its own socket",
			slog.String("socket", k.socketPath()))
		k.foreign = true
		return
	}
	k.open(k.main)
}

// open lets users in to a daemon.
func (k *Kiosk) open(b *Back) {
	if err := k.door.Open(b); err != nil {
		k.Log(slog.LevelError, "users get no credentials", slog.Any("error", err))
	}
}

// Ended refuses users: the main process has ended.
func (k *Kiosk) Ended() {
	k.lock.Lock()
	defer k.lock.Unlock()
	if k.main == nil {
		return
	}
	k.door.Shut(k.main)
	k.main.Close()
	k.main, k.opened = nil, false
}

// Socket is the daemon's own, behind the door, so that nobody else's connections count. It is empty while the daemon is
// not in service.
func (k *Kiosk) Socket() string {
	if k.door == nil {
		return k.socketPath()
	}
	k.lock.Lock()
	defer k.lock.Unlock()
	switch {
	case !k.opened:
		return ""
	case k.foreign:
		return k.socketPath()
	}
	return k.main.ProcPath()
}

// speaks: somebody listens on a socket and closes what is closed for writing.
func speaks(path string) bool {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = errors.Join(conn.(*net.UnixConn).CloseWrite(), conn.SetReadDeadline(time.Now().Add(time.Second))) // the answer counts
	_, err = conn.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}
