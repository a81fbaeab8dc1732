package webpage

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// seldom logs each kind of fault once a minute, however often strangers cause it.
type seldom struct {
	log  *slog.Logger
	lock sync.Mutex
	last map[string]time.Time
}

const seldomPause = time.Minute

func newSeldom(log *slog.Logger) *seldom { return &seldom{log: log, last: map[string]time.Time{}} }

// warn logs a fault; what is a constant text.
func (s *seldom) warn(what string, err error) {
	if s.due(what) {
		s.log.Warn(what, "error", err.Error())
	}
}

func (s *seldom) due(what string) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	if last, found := s.last[what]; found && time.Since(last) < seldomPause {
		return false
	}
	s.last[what] = time.Now()
	return true
}

// seldomHandler is for what net/http has to say, such as a panic.
type seldomHandler struct {
	slog.Handler
	*seldom
}

// Handle logs a record if none was logged for a while.
func (h seldomHandler) Handle(ctx context.Context, r slog.Record) error {
	if !h.due("net/http") {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}
