// Package notify is the service manager's side of sd_notify(3): it hears from the daemons when they are ready, and which process
// they have become.
package notify

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Message is one datagram. The credentials are the kernel's word (unix(7), SO_PASSCRED), the rest is the sender's.
type Message struct {
	PID, UID, GID int

	Ready, Reloading, Stopping, Watchdog, Barrier bool

	MainPID int      // 0: not said
	Status  string   // valid UTF-8
	Errno   int      // 0: not said
	Unknown []string // assignments that mean nothing here, as they came
}

// maxSize is the longest message in bytes, as in systemd (NOTIFY_BUFFER_MAX).
const maxSize = 4096

// maxPID is the largest pid that Linux gives (proc_sys_kernel(5), pid_max).
const maxPID = 1 << 22

// Parse reads the text of a message: one assignment a line. An assignment that is given twice counts as it was given last.
func Parse(data []byte) (Message, error) {
	if len(data) > maxSize {
		return Message{}, fmt.Errorf("cannot read the message: longer than %d bytes", maxSize)
	}
	var m Message
	for line := range strings.SplitSeq(string(data), "\n") {
		if line == "" {
			continue
		}
		if err := m.assign(line); err != nil {
			return Message{}, fmt.Errorf("cannot read the message: %w", err)
		}
	}
	return m, nil
}

func (m *Message) assign(line string) (err error) {
	if strings.ContainsRune(line, 0) {
		return errors.New("a NUL in it")
	}
	key, value, _ := strings.Cut(line, "=")
	switch {
	case key == "MAINPID":
		m.MainPID, err = number(key, value, maxPID)
	case key == "ERRNO":
		m.Errno, err = number(key, value, maxErrno)
	case key == "STATUS":
		m.Status = strings.ToValidUTF8(value, "\uFFFD")
	case !m.raise(line):
		m.Unknown = append(m.Unknown, line)
	}
	return err
}

// maxErrno is the kernel's MAX_ERRNO.
const maxErrno = 4095

// number reads a positive decimal number.
func number(key, value string, limit int) (int, error) {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || n == 0 || n > uint64(limit) {
		return 0, fmt.Errorf("%s=%.20q is not a number from 1 to %d", key, value, limit)
	}
	return int(n), nil
}

// raise sets the flag that line stands for.
func (m *Message) raise(line string) bool {
	switch line {
	case "READY=1":
		m.Ready = true
	case "RELOADING=1":
		m.Reloading = true
	case "STOPPING=1":
		m.Stopping = true
	case "WATCHDOG=1":
		m.Watchdog = true
	case "BARRIER=1":
		m.Barrier = true
	default:
		return false
	}
	return true
}
