package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/pod/outlet"
)

const (
	// mostWaiting is what the log keeps for a reader that stands still, in bytes.
	mostWaiting = 512 << 10
	// flushTime is what the program's end waits for that reader: the grace period's last
	// half second is the agent's.
	flushTime = 250 * time.Millisecond
)

// newOutput is the log's way out: whoever logs never waits for whoever reads.
func newOutput() *outlet.Outlet {
	return outlet.New(outlet.Descriptor(unix.Stdout), mostWaiting, func(lost int) []byte {
		var line bytes.Buffer
		slog.New(slog.NewJSONHandler(&line, nil)).Warn("lines were lost: nobody read the container's output",
			"source", agent.Source, "lines", lost)
		return line.Bytes()
	})
}

// newLog writes one JSON stream: the agent's lines and the daemon's, distinguished
// by their source. The daemon's lines have the level that the daemon chose by
// slurm.conf; the agent's own setting does not hide them.
func newLog(output io.Writer, level slog.Level) *slog.Logger {
	return slog.New(ownLevel{slog.NewJSONHandler(output, &slog.HandlerOptions{Level: slog.LevelDebug}), level})
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
