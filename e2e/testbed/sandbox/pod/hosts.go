package pod

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
)

// Hosts is the one hosts file of all pods. It is bound into them, so it is
// changed in place: a line is appended, or made a comment by its first byte.
// A reader never sees half a file.
type Hosts struct {
	mu   sync.Mutex
	path string
}

// NewHosts writes a hosts file with nothing but localhost.
func NewHosts(path string) (*Hosts, error) {
	const start = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"
	if err := os.WriteFile(path, []byte(start), 0o644); err != nil {
		return nil, fmt.Errorf("cannot write hosts file: %v", err)
	}
	return &Hosts{path: path}, nil
}

// Add makes name resolve to ip.
func (h *Hosts) Add(name, ip string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("cannot add host %s: %v", name, err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s %s\n", ip, name); err != nil {
		return fmt.Errorf("cannot add host %s: %v", name, err)
	}
	return nil
}

// Remove makes name unknown.
func (h *Hosts) Remove(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, err := os.OpenFile(h.path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("cannot remove host %s: %v", name, err)
	}
	defer f.Close()
	data, err := os.ReadFile(h.path)
	if err != nil {
		return fmt.Errorf("cannot remove host %s: %v", name, err)
	}
	for _, at := range linesOf(data, name) {
		if _, err := f.WriteAt([]byte("#"), int64(at)); err != nil {
			return fmt.Errorf("cannot remove host %s: %v", name, err)
		}
	}
	return nil
}

// linesOf returns where the lines that name a host begin.
func linesOf(data []byte, name string) []int {
	var out []int
	at := 0
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if len(fields) == 2 && fields[1] == name && line[0] != '#' {
			out = append(out, at)
		}
		at += len(line)
	}
	return out
}
