package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// The ports of the daemons.
const (
	slurmctldPort = 6817
	slurmdPort    = 6818
	agentPort     = 8817
)

// traffic counts the bytes that slurmctld and its agent have sent. The kernel tells of every TCP
// socket that is closed in our network namespace (sock_diag(7), SKNLGRP_INET_TCP_DESTROY). Nodes
// have namespaces of their own.
type traffic struct {
	fd int
	// slurmctld is what slurmctld has sent, as server and as client; agent what its agent has.
	slurmctld, agent atomic.Int64
	// lost: the kernel had more to tell than was read in time.
	lost  atomic.Bool
	ended chan struct{}
}

const (
	// Groups of sock_diag(7): SKNLGRP_INET_TCP_DESTROY and SKNLGRP_INET6_TCP_DESTROY.
	destroyed = 1<<0 | 1<<2
	// Of struct nlmsghdr and struct inet_diag_msg.
	headerSize, messageSize = 16, 72
	infoAttribute           = 2   // INET_DIAG_INFO
	bytesSent               = 200 // tcpi_bytes_sent in struct tcp_info
)

func watchTraffic() (*traffic, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("cannot count bytes: %w", err)
	}
	second := unix.Timeval{Sec: 1}
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &second),
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: destroyed}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot count bytes: %w", err), unix.Close(fd))
	}
	t := &traffic{fd: fd, ended: make(chan struct{})}
	go t.follow()
	return t, nil
}

func (t *traffic) follow() {
	defer close(t.ended)
	buffer := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(t.fd, buffer, 0)
		switch {
		case errors.Is(err, unix.EBADF):
			return
		case errors.Is(err, unix.ENOBUFS):
			t.lost.Store(true)
		case err == nil:
			t.count(buffer[:n])
		}
	}
}

// count takes one socket's end.
func (t *traffic) count(message []byte) {
	if len(message) < headerSize+messageSize {
		return
	}
	own := binary.BigEndian.Uint16(message[headerSize+4:])
	other := binary.BigEndian.Uint16(message[headerSize+6:])
	for rest := message[headerSize+messageSize:]; len(rest) >= 4; {
		size, kind := int(binary.LittleEndian.Uint16(rest)), binary.LittleEndian.Uint16(rest[2:])
		if size < 4 || size > len(rest) {
			return
		}
		if kind == infoAttribute && size >= 4+bytesSent+8 {
			sent := int64(binary.LittleEndian.Uint64(rest[4+bytesSent:]))
			switch {
			case own == slurmctldPort || other == slurmdPort:
				t.slurmctld.Add(sent)
			case own == agentPort:
				t.agent.Add(sent)
			}
		}
		rest = rest[min((size+3)&^3, len(rest)):]
	}
}

func (t *traffic) close() {
	_ = unix.Shutdown(t.fd, unix.SHUT_RDWR)
	_ = unix.Close(t.fd)
	<-t.ended
}
