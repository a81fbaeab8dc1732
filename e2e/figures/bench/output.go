package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// output is what a contender says.
type output struct {
	// wanted is a text that says that it is at rest, which closes ready.
	wanted       string
	ready, ended chan struct{}

	mu   sync.Mutex
	last []string // lines
}

func newOutput(wanted string) *output {
	return &output{wanted: wanted, ready: make(chan struct{}), ended: make(chan struct{})}
}

// lastLines is what explains a failure.
const lastLines = 20

func (o *output) read(from io.Reader) {
	defer close(o.ended)
	said := o.wanted == ""
	if said {
		close(o.ready)
	}
	for lines := bufio.NewScanner(from); lines.Scan(); {
		if !said && strings.Contains(lines.Text(), o.wanted) {
			said = true
			close(o.ready)
		}
		o.keep(lines.Text())
	}
	_, _ = io.Copy(io.Discard, from) // a line that is too long shall not block who says it
}

func (o *output) keep(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = append(o.last, line)
	o.last = o.last[max(len(o.last)-lastLines, 0):]
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.last, "\n")
}

// rest waits until the contender is at rest.
func (o *output) rest() error {
	select {
	case <-o.ready:
		return nil
	case <-o.ended:
		return fmt.Errorf("it has ended before it said %q; it said:\n%s", o.wanted, o)
	case <-time.After(native.Limit):
		return fmt.Errorf("it did not say %q within %v; it said:\n%s", o.wanted, native.Limit, o)
	}
}
