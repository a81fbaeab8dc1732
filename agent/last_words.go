package agent

import (
	"crypto/rand"
	"strings"
	"time"
)

// lastWords waits until everything that was written to the daemon's pipe so
// far has been heard. A daemon's end is often quicker than what it wrote last,
// which explains it; and the container's end must not cost it. A mark goes
// through the pipe behind it all. Where the log's reader has stopped reading,
// the end does not wait.
func (a *Agent) lastWords() {
	mark := "slurmlet-" + rand.Text()
	heard := make(chan struct{})
	a.marks.Store(mark, heard)
	defer a.marks.Delete(mark)
	go func() { _, _ = a.output.File().WriteString(mark + "\n") }() // it blocks while the pipe is full
	select {
	case <-heard:
	case <-time.After(reserve):
	}
}

// passMark calls hear with what a line says besides a mark: all of it, or the
// words before the mark that no newline followed.
func (a *Agent) passMark(text string, hear func(string)) {
	var passed chan struct{}
	a.marks.Range(func(mark, heard any) bool {
		words, found := strings.CutSuffix(text, mark.(string))
		if found {
			text, passed = words, heard.(chan struct{})
		}
		return !found
	})
	if passed == nil || text != "" {
		hear(text)
	}
	if passed != nil {
		close(passed)
	}
}
