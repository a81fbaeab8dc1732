package agent

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/pod/sack"
)

// door is the way to slurmd's or sackd's credentials.
type door struct {
	*sack.Door
	lock sync.Mutex
	// main is the main process's socket, of a slurmd that is in service once opened is true.
	main   *sack.Back
	opened bool
	// foreign: the daemon does not take the socket behind the door, and has made its own.
	foreign bool
	// kiosk: a sackd is in the place of a daemon whose port is crowded. crowd tells who crowds it.
	kiosk bool
	crowd atomic.Pointer[string]
}

// makeDoor makes the door where slurmd or sackd gives users credentials. Where the agent cannot act for its users, the
// daemon makes its own socket: then everybody in the pod has the agent's uid, or the pod's capabilities are few. Agents that
// take turns share a machine and its socket, and start no daemon.
func (a *Agent) makeDoor() error {
	if a.daemon.keys == "" || !a.daemon.registers && !a.daemon.hosts || os.Geteuid() != 0 || a.Turn != nil {
		return nil
	}
	path := filepath.Join(a.Root, sack.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	made, err := sack.New(sack.Options{Path: path, Dir: filepath.Join(a.Config.RunDir, "sack"), UID: a.daemon.uid(), GID: a.daemon.gid(), Log: a.log, Slow: a.relieve})
	if err != nil {
		a.log(slog.LevelWarn, "users' silent connections are not bounded: cannot connect to the daemon's socket for them", slog.Any("error", err))
		return nil
	}
	a.door.Door = made
	return nil
}

// behind gives a daemon its socket behind the door; nil without one.
func (d *door) behind(c *process.Command) (*sack.Back, error) {
	if d.Door == nil {
		return nil, nil
	}
	back, err := d.NewBack()
	if err != nil {
		return nil, err
	}
	c.Stdin, c.Env = back.Listener, append(c.Env, sack.Env)
	return back, nil
}

// start starts the daemon.
func (d *door) start(a *Agent, c process.Command) (*process.Process, error) {
	back, err := d.behind(&c)
	if err != nil {
		return nil, err
	}
	p, err := a.Table.Start(c)
	if back == nil {
		return p, err
	}
	if err != nil {
		back.Close()
		return nil, err
	}
	_ = back.Listener.Close() // the daemon has it
	d.lock.Lock()
	defer d.lock.Unlock()
	d.main, d.opened, d.foreign = back, false, false
	return p, nil
}

// openDoor lets users in: the daemon is in service, or has handed its socket over to its successor.
func (a *Agent) openDoor() {
	a.door.lock.Lock()
	defer a.door.lock.Unlock()
	if a.door.Door == nil || a.door.main == nil || a.door.opened {
		return
	}
	a.door.opened = true
	if a.door.kiosk {
		return // it goes on until the crowd is over
	}
	if path := filepath.Join(a.Root, sack.Path); a.door.At() == nil && speaks(path) {
		a.log(slog.LevelWarn, "users' silent connections are not bounded: the daemon has made its own socket", slog.String("socket", path))
		a.door.foreign = true
		return
	}
	if err := a.door.Open(a.door.main); err != nil {
		a.log(slog.LevelError, "users get no credentials", slog.Any("error", err))
	}
}

// shut: the main process has ended.
func (d *door) shut() {
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.Door == nil || d.main == nil {
		return
	}
	d.Shut(d.main)
	d.main.Close()
	d.main, d.opened = nil, false
}

// replace lets users in to another daemon; nil: without a door nothing is to be done.
func (d *door) replace(b *sack.Back) error {
	if b == nil {
		return nil
	}
	return d.Open(b)
}

// slurmdSocket is the socket behind the door, so that nobody else's connections count. A slurmd that is not in service has
// none yet.
func (a *Agent) slurmdSocket() string {
	if a.door.Door == nil {
		return filepath.Join(a.Root, sack.Path)
	}
	a.door.lock.Lock()
	defer a.door.lock.Unlock()
	switch {
	case !a.door.opened:
		return ""
	case a.door.foreign:
		return filepath.Join(a.Root, sack.Path)
	}
	return a.door.main.Path()
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
