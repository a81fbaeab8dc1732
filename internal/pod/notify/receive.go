package notify

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// datagram is a message as the kernel delivers it. Its files have to be closed.
type datagram struct {
	pid, uid, gid int
	text          []byte
	truncated     bool
	files         []int
}

var errEmpty = errors.New("the socket is empty")

// maxFiles is how many descriptors there is room for; a barrier is one. The kernel closes those that do not fit (unix(7), SCM_RIGHTS).
const maxFiles = 4

var controlSize = unix.CmsgSpace(unix.SizeofUcred) + unix.CmsgSpace(maxFiles*4)

func receive(fd int) (datagram, error) {
	text, control := make([]byte, maxSize), make([]byte, controlSize)
	n, c, flags, err := recvmsg(fd, text, control)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return datagram{}, errEmpty
	case err != nil:
		return datagram{}, os.NewSyscallError("recvmsg", err)
	}
	d := datagram{text: text[:n], truncated: flags&unix.MSG_TRUNC != 0}
	d.control(control[:c])
	return d, nil
}

func recvmsg(fd int, text, control []byte) (n, c, flags int, err error) {
	for {
		n, c, flags, _, err = unix.Recvmsg(fd, text, control, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return n, c, flags, err
		}
	}
}

// control keeps what can be read, of a truncated message too: each descriptor that arrived is closed in the end.
func (d *datagram) control(data []byte) {
	for len(data) >= unix.SizeofCmsghdr {
		header, content, rest, err := unix.ParseOneSocketControlMessage(data)
		if err != nil {
			return
		}
		data = rest
		m := unix.SocketControlMessage{Header: header, Data: content}
		if files, err := unix.ParseUnixRights(&m); err == nil {
			d.files = append(d.files, files...)
		}
		if who, err := unix.ParseUnixCredentials(&m); err == nil {
			d.pid, d.uid, d.gid = int(who.Pid), int(who.Uid), int(who.Gid)
		}
	}
}

func (d *datagram) closeFiles() {
	for _, fd := range d.files {
		_ = unix.Close(fd)
	}
	d.files = nil
}

func (d *datagram) message() (Message, error) {
	if d.truncated {
		return Message{}, fmt.Errorf("cannot read the message: longer than %d bytes", maxSize)
	}
	m, err := Parse(d.text)
	m.PID, m.UID, m.GID = d.pid, d.uid, d.gid
	return m, err
}
