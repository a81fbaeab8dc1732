package parts

import (
	"strings"
	"sync"
	"time"
)

// steps watches the output of a long command, counts what it has done and
// tells it every few seconds, also when the command says nothing.
type steps struct {
	p        Progress
	what     string   // "kernel: compiled %d of about %d files"
	total    int      // how many there will be, roughly
	prefixes []string // of the lines that count
	started  time.Time
	end      chan struct{}
	ended    sync.WaitGroup

	mu   sync.Mutex
	done int
	last string // the last line of output: what it is waiting for
}

// pause is the time between two lines about the same step.
const pause = 5 * time.Second

// watch begins to tell about a command, until stop.
func watch(p Progress, what string, total int, prefixes ...string) *steps {
	s := &steps{p: p, what: what, total: total, prefixes: prefixes, started: time.Now(), end: make(chan struct{})}
	s.ended.Go(s.tell)
	return s
}

// line takes one line of the command's output.
func (s *steps) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = strings.TrimSpace(text)
	for _, prefix := range s.prefixes {
		if strings.HasPrefix(text, prefix) {
			s.done++
			return
		}
	}
}

// stop ends it; nothing is told afterwards.
func (s *steps) stop() {
	close(s.end)
	s.ended.Wait()
}

func (s *steps) tell() {
	every := time.NewTicker(pause)
	defer every.Stop()
	for {
		select {
		case <-s.end:
			return
		case <-every.C:
			s.mu.Lock()
			done, last := s.done, s.last
			s.mu.Unlock()
			s.p(s.what+" (%s): %s", done, s.total, since(s.started), clip(last))
		}
	}
}

// clip keeps a line on one line of a terminal.
func clip(line string) string {
	const most = 60
	if r := []rune(line); len(r) > most {
		return string(r[:most]) + "…"
	}
	return line
}

// since is the time that passed from start, in whole seconds.
func since(start time.Time) time.Duration {
	return time.Since(start).Round(time.Second)
}
