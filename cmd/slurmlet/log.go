package main

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"github.com/slurmlet/slurmlet/agent"
)

// newLog writes one JSON stream: the agent's lines and the daemon's, told apart
// by their source. The daemon's lines have the level that the daemon chose by
// slurm.conf; the agent's own setting does not hide them.
func newLog(level slog.Level) *slog.Logger {
	return slog.New(ownLevel{slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug}), level})
}

type ownLevel struct {
	slog.Handler
	level slog.Level
}

func (h ownLevel) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < h.level && isOwn(r) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func isOwn(r slog.Record) bool {
	own := true
	r.Attrs(func(a slog.Attr) bool {
		own = a.Key != "source" || a.Value.String() == agent.Source
		return own
	})
	return own
}

func observer(log *slog.Logger) func(agent.Notice) {
	return func(n agent.Notice) {
		attrs := append([]slog.Attr{slog.String("source", n.Source)}, n.Attrs...)
		log.LogAttrs(context.Background(), n.Level, n.Text, attrs...)
	}
}

// logFaults gives every fault of a joined error a line of its own.
func logFaults(log *slog.Logger, what string, err error) {
	for line := range strings.Lines(err.Error()) {
		log.Error(what, "source", agent.Source, "error", strings.TrimSpace(line))
	}
}
