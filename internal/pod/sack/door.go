package sack

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// usualPatience is as long as the daemon has by itself (MessageTimeout in slurm.conf(5)).
	usualPatience = 10 * time.Second
	// slowAnswer is how long the daemon may take to answer before somebody looks at it.
	slowAnswer = time.Second
)

// Options say where the socket lies, and who runs the daemon behind it.
type Options struct {
	// Path is where users connect, and Dir a directory that is the door's own.
	Path, Dir string
	// UID and GID are the daemon's.
	UID, GID int
	Log      func(level slog.Level, text string, attrs ...slog.Attr)
	// Slow is called when the daemon has not answered for a second, once at a time; nil: nobody looks.
	Slow func()
}

// Door lets users in to a daemon. A nil Door lets nobody in.
type Door struct {
	Options
	shares *shares
	// patience is how long a connection may take to say its request.
	patience time.Duration

	lock     sync.Mutex
	listener *net.UnixListener
	back     *Back
	// moved is closed when users are let in to another daemon than back.
	moved   chan struct{}
	visits  map[*visitor]bool
	looking bool
	warned  time.Time
}

// New makes a door, which is shut. It fails where the agent cannot connect for others: that takes CAP_SETUID and CAP_SETGID.
func New(o Options) (*Door, error) {
	if err := errors.Join(os.RemoveAll(o.Dir), os.MkdirAll(o.Dir, 0o700), os.Chown(o.Dir, o.UID, o.GID)); err != nil {
		return nil, fmt.Errorf("cannot make the directory of the door in front of %s: %w", o.Path, err)
	}
	d := &Door{Options: o, shares: newShares(usual, 0, uint32(o.UID)), patience: usualPatience, visits: map[*visitor]bool{}}
	return d, d.try()
}

// try connects as somebody else to a socket of its own.
func (d *Door) try() error {
	const nobody = 65534
	back, err := d.NewBack()
	if err != nil {
		return err
	}
	defer back.Close()
	conn, err := connectAs(nobody, nobody, back.ProcPath())
	if err != nil {
		return fmt.Errorf("cannot connect as another user: %w", err)
	}
	defer conn.Close()
	listener, err := net.FileListener(back.Listener)
	if err != nil {
		return err
	}
	defer listener.Close()
	accepted, err := listener.Accept()
	if err != nil {
		return err
	}
	defer accepted.Close()
	cred, err := peer(accepted.(*net.UnixConn))
	if err == nil && (cred.Uid != nobody || cred.Gid != nobody) {
		err = fmt.Errorf("connected as %d:%d, not as another user", cred.Uid, cred.Gid)
	}
	return err
}

// Open lets users in to b. Whoever waits for an answer of another daemon asks b now.
func (d *Door) Open(b *Back) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.move(b)
	if d.listener != nil {
		return nil
	}
	if err := os.Remove(d.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot let users in to %s: %w", d.Path, err)
	}
	listener, err := listen(d.Path)
	if err != nil {
		return fmt.Errorf("cannot let users in to %s: %w", d.Path, err)
	}
	d.listener = listener
	go d.accept(listener)
	return nil
}

// move lets users in to b, nil for nobody.
func (d *Door) move(b *Back) {
	if d.back == b {
		return
	}
	if d.moved != nil {
		close(d.moved)
	}
	d.back, d.moved = b, make(chan struct{})
}

// At is the daemon that users are let in to, nil for none.
func (d *Door) At() *Back {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.back
}

// Shut refuses users where b is the daemon that they are let in to: it is over.
func (d *Door) Shut(b *Back) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.back != b {
		return
	}
	d.move(nil)
	if d.listener != nil {
		_ = d.listener.Close()
		d.listener = nil
	}
	for v := range d.visits {
		_ = v.conn.Close()
	}
}

// Status is nil without a door.
func (d *Door) Status() *Status {
	if d == nil {
		return nil
	}
	s := d.shares.status()
	return &s
}

func (d *Door) accept(listener *net.UnixListener) {
	for {
		conn, err := listener.AcceptUnix()
		switch {
		case err == nil:
			d.let(conn)
		case errors.Is(err, net.ErrClosed):
			return
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
			<-time.After(10 * time.Millisecond) // one ends
		}
	}
}

// let has the visitor served, or ends it at once.
func (d *Door) let(conn *net.UnixConn) {
	cred, err := peer(conn)
	if err != nil {
		_ = conn.Close() // it has gone
		return
	}
	v := &visitor{conn: conn, uid: cred.Uid}
	d.lock.Lock()
	d.visits[v] = true
	d.lock.Unlock()
	if ended := d.shares.admit(v); ended != nil {
		_ = ended.conn.Close()
		d.warn(ended.uid)
		if ended == v {
			d.leave(v)
			return
		}
	}
	go d.serve(v, conn, cred)
}

func (d *Door) leave(v *visitor) {
	_ = v.conn.Close()
	d.shares.leave(v)
	d.lock.Lock()
	defer d.lock.Unlock()
	delete(d.visits, v)
}

func (d *Door) serve(v *visitor, conn *net.UnixConn, cred *unix.Ucred) {
	defer d.leave(v)
	_ = conn.SetReadDeadline(time.Now().Add(d.patience)) // one that has gone cannot be read either
	request, err := readRequest(conn)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		d.shares.late(v)
		d.warn(v.uid)
		return
	case err != nil:
		return
	}
	d.shares.asked(v)
	gone := make(chan struct{})
	_ = conn.SetReadDeadline(time.Time{})
	go func() {
		defer close(gone)
		for rest := make([]byte, 1); err == nil; { // what follows the request is nothing to the daemon
			_, err = conn.Read(rest)
		}
	}()
	leave := d.shares.place(v, gone)
	if leave == nil {
		return
	}
	defer leave()
	for d.pass(conn, cred, request, gone) {
	}
}

// warn logs who crowds the socket, at most once a minute.
func (d *Door) warn(uid uint32) {
	d.lock.Lock()
	due := time.Since(d.warned) >= remembered
	if due {
		d.warned = time.Now()
	}
	d.lock.Unlock()
	if due {
		d.Log(slog.LevelWarn, "a user's silent connections are ended: they keep nobody else from credentials",
			slog.String("socket", d.Path), slog.Any("uid", uid))
	}
}
