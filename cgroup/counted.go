package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryEvents is a cgroup whose memory.events are followed with poll(2).
type memoryEvents struct {
	dir    string
	events *os.File
	// high and kills are the counts that were read last.
	high, kills int64
}

func openCounted(dir string) (memoryEvents, error) {
	events, err := os.Open(filepath.Join(dir, "memory.events"))
	if err != nil {
		return memoryEvents{}, err
	}
	c := memoryEvents{dir: dir, events: events}
	_, _, err = c.changes()
	return c, err
}

func (c *memoryEvents) close() { _ = c.events.Close() }

// polled waits for a change after the last reading.
func (c *memoryEvents) polled() unix.PollFd {
	return unix.PollFd{Fd: int32(c.events.Fd()), Events: unix.POLLPRI} //nolint:gosec // a file descriptor
}

// changes reads memory.events: whether memory.high was exceeded since the last reading, and how many
// processes the kernel has killed.
func (c *memoryEvents) changes() (exceeded bool, killed int64, err error) {
	text := make([]byte, 1024)
	n, err := c.events.ReadAt(text, 0)
	if n == 0 {
		return false, 0, err
	}
	before := *c
	for line := range strings.Lines(string(text[:n])) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		count, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
		case name == "high":
			c.high = count
		case name == "oom_kill":
			c.kills = count
		}
	}
	return c.high > before.high, max(0, c.kills-before.kills), nil
}

// current is the memory in use, in bytes.
func (c *memoryEvents) current() (int64, error) {
	return readLimit(filepath.Join(c.dir, "memory.current"))
}

func (c *memoryEvents) setLimit(limit string, bytes int64) error {
	return write(filepath.Join(c.dir, limit), strconv.FormatInt(bytes, 10))
}
