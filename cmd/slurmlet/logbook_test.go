package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// logbook collects the agent's standard output: one JSON object a line, and nothing else.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// entry is what a line of the log must hold: each value is part of the line's.
type entry map[string]string

// find returns an error when there is no such line, or one that is no JSON.
func (l *logbook) find(want entry) error {
	for line := range strings.Lines(l.String()) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			return fmt.Errorf("a line of the log is not JSON: %q", line)
		}
		if want.isIn(fields) {
			return nil
		}
	}
	return fmt.Errorf("no line of the log has %v", want)
}

func (e entry) isIn(fields map[string]any) bool {
	for key, value := range e {
		if have, found := fields[key]; !found || !strings.Contains(fmt.Sprint(have), value) {
			return false
		}
	}
	return true
}
