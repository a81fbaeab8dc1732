package people

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// directory asks sssd's PAM service for accounts, as pam_sss(8) does: may this person in? sssd asks the directory anew for
// each such question, at most each pam_id_timeout (sssd.conf(5), 5 s). Off-line it answers from its cache.
type directory struct {
	socket string
	conn   net.Conn
}

// pipes is where sssd's sockets are, which every user may open.
const pipes = "var/lib/sss/pipes"

// life is another string for each start of sssd, empty while there is none.
func life(root string) string {
	info, err := os.Stat(filepath.Join(root, pipes, "pam"))
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode().Type() != os.ModeSocket {
		return ""
	}
	return fmt.Sprint(stat.Dev, stat.Ino, stat.Ctim)
}

// What sssd's clients and sssd say to each other (sss_cli.h). Numbers are in the machine's byte order.
const (
	getVersion, accountPhase  = 0x0001, 0x00f3
	pamProtocol               = 3
	requestStart, requestEnd  = 0x4d415049, 0x4950414d
	itemUser, itemService     = 1, 2
	itemPID                   = 9
	headerLength, longest     = 16, 1 << 16
	pamSuccess, pamDenied     = 0, 6
	pamUnknown, pamNewAuthtok = 10, 12
	pamExpired                = 13
	// doorService is the PAM service that the questions are for: what counts is whether sshd would let somebody in.
	doorService = "sshd"
)

const (
	// questionLimit is how long sssd may take: it tries its servers one by one.
	questionLimit = 15 * time.Second
	// pace is the least time between two questions, which is 100 a second of a directory.
	pace = 10 * time.Millisecond
)

// ask asks for an account.
func (d *directory) ask(ctx context.Context, name string) Answer {
	status, err := d.account(ctx, name)
	if err != nil {
		d.close()
		return Unsure
	}
	switch status {
	case pamSuccess, pamNewAuthtok:
		return Here
	case pamDenied, pamExpired:
		return Locked
	case pamUnknown:
		return Gone
	}
	return Unsure
}

func (d *directory) close() {
	if d.conn != nil {
		d.conn.Close()
		d.conn = nil
	}
}

func (d *directory) account(ctx context.Context, name string) (status uint32, err error) {
	if d.conn == nil {
		var dialer net.Dialer
		if d.conn, err = dialer.DialContext(ctx, "unix", d.socket); err != nil {
			return 0, err
		}
		if _, err = d.exchange(getVersion, number(pamProtocol)); err != nil {
			return 0, err
		}
	}
	return d.exchange(accountPhase, accountRequest(name))
}

func number(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func accountRequest(name string) []byte {
	body := number(requestStart)
	item := func(kind uint32, value []byte) {
		body = append(append(append(body, number(kind)...), number(uint32(len(value)))...), value...)
	}
	item(itemUser, append([]byte(name), 0))
	item(itemService, append([]byte(doorService), 0))
	item(itemPID, number(uint32(os.Getpid())))
	return append(body, number(requestEnd)...)
}

// exchange returns the first number of an answer.
func (d *directory) exchange(command uint32, body []byte) (uint32, error) {
	if err := d.conn.SetDeadline(time.Now().Add(questionLimit)); err != nil {
		return 0, err
	}
	request := append(number(uint32(headerLength+len(body))), number(command)...)
	request = append(append(request, make([]byte, headerLength-len(request))...), body...)
	if _, err := d.conn.Write(request); err != nil {
		return 0, err
	}
	head := make([]byte, headerLength)
	if _, err := io.ReadFull(d.conn, head); err != nil {
		return 0, err
	}
	length, fault := binary.NativeEndian.Uint32(head), binary.NativeEndian.Uint32(head[8:])
	if fault != 0 || length < headerLength+4 || length > longest {
		return 0, errors.New("sssd has refused the question")
	}
	answer := make([]byte, length-headerLength)
	if _, err := io.ReadFull(d.conn, answer); err != nil {
		return 0, err
	}
	return binary.NativeEndian.Uint32(answer), nil
}
