package sack

import (
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// mostAnswer is how much of an answer is awaited before the rest is handed on as it comes.
const mostAnswer = 4 << 10

// pass passes a request on, and the answer back. It is to be repeated if another daemon has taken the place of the one that
// was asked: a request that is made twice changes nothing.
func (d *Door) pass(conn net.Conn, cred *unix.Ucred, request []byte, gone <-chan struct{}) (again bool) {
	d.lock.Lock()
	back, moved := d.back, d.moved
	d.lock.Unlock()
	if back == nil {
		return false
	}
	behind, err := connectAs(cred.Uid, cred.Gid, back.ProcPath())
	if err != nil {
		return d.replaced(back)
	}
	defer behind.Close()
	if _, err := behind.Write(request); err != nil {
		return d.replaced(back)
	}
	begun := make(chan []byte, 1)
	go func() {
		answer := make([]byte, mostAnswer)
		n, _ := behind.Read(answer) // nothing is no answer
		begun <- answer[:n]
	}()
	late := time.NewTimer(slowAnswer)
	defer late.Stop()
	for {
		select {
		case answer := <-begun:
			if len(answer) == 0 {
				return d.replaced(back)
			}
			handOn(conn, behind, answer, gone)
			return false
		case <-moved:
			return d.replaced(back)
		case <-gone:
			return false
		case <-late.C:
			d.look()
		}
	}
}

// handOn hands an answer on until one of the two has gone.
func handOn(conn, behind net.Conn, begun []byte, gone <-chan struct{}) {
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-gone:
			_ = behind.Close()
		case <-over:
		}
	}()
	if _, err := conn.Write(begun); err == nil {
		_, _ = io.Copy(conn, behind) // who has gone is nobody's fault
	}
}

// replaced: users are let in to another daemon than b.
func (d *Door) replaced(b *Back) bool {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.back != nil && d.back != b
}

// look has somebody look at a daemon that is slow.
func (d *Door) look() {
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.looking || d.Slow == nil {
		return
	}
	d.looking = true
	go func() {
		d.Slow()
		d.lock.Lock()
		defer d.lock.Unlock()
		d.looking = false
	}()
}
