package process

import (
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestParseLine(t *testing.T) {
	for _, c := range []struct {
		line  string
		level slog.Level
		text  string
	}{
		// stderr: program, level, text
		{"slurmd: error: Unable to register: Zero Bytes", slog.LevelError, "Unable to register: Zero Bytes"},
		{"slurmctld: fatal: Can't bind", LevelFatal, "Can't bind"},
		{"slurmctld: debug:  sched: Running job scheduler", slog.LevelDebug, "sched: Running job scheduler"},
		{"slurmctld: debug2: x", slog.LevelDebug, "x"},
		{"slurmd: debug5: x", slog.LevelDebug, "x"},
		{"slurmd: warning: x", slog.LevelWarn, "x"},
		{"slurmd: verbose: x", slog.LevelInfo, "x"},
		{"slurmctld: error: sched: x", slog.LevelError, "sched: x"},
		{"slurmctld: internal error: x", slog.LevelError, "x"},
		{"slurmd: slurmd version 26.05.5 started", slog.LevelInfo, "slurmd version 26.05.5 started"},
		{"slurmstepd-n1: error: *** STEP 12.0 ON n1 CANCELLED", slog.LevelError, "*** STEP 12.0 ON n1 CANCELLED"},
		{"sackd: error: x", slog.LevelError, "x"},

		// a file, with every LogTimeFormat
		{"[2026-11-21T01:02:03.123] error: x", slog.LevelError, "x"},
		{"[2026-11-21T01:02:03] debug:  x", slog.LevelDebug, "x"},
		{"[2026-11-21T01:02:03.123+01:00] fatal: x", LevelFatal, "x"},
		{"[2026-11-21T01:02:03Z] x", slog.LevelInfo, "x"},
		{"[Nov 21 01:02:03] error: x", slog.LevelError, "x"},
		{"[1234567] error: x", slog.LevelError, "x"},
		{"[2026-11-21T01:02:03.123] [12.batch] error: x", slog.LevelError, "[12.batch] x"},
		{"[2026-11-21T01:02:03.123] [12.0] done with job", slog.LevelInfo, "[12.0] done with job"},
		{"sched: [2026-11-21T01:02:03.123] Allocate JobId=1", slog.LevelInfo, "Allocate JobId=1"},

		// anybody else
		{"Error: cannot open", slog.LevelError, "cannot open"},
		{"WARNING: careful", slog.LevelWarn, "careful"},
		{"errors: 3", slog.LevelInfo, "errors: 3"},
		{"there was an error: x", slog.LevelInfo, "there was an error: x"},
		{"[n1] x", slog.LevelInfo, "[n1] x"},
		{"slurmd: ", slog.LevelInfo, ""},
		{"", slog.LevelInfo, ""},
	} {
		level, text := parseLine(c.line)
		assert.Equal(t, c.level, level, c.line)
		assert.Equal(t, c.text, text, c.line)
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add("slurmctld: error: sched: x")
	f.Add("[2026-11-21T01:02:03.123+01:00] [12.batch] debug2: x")
	f.Add("sched: [Nov 21 01:02:03] fatal: x")
	f.Fuzz(func(t *testing.T, line string) {
		level, text := parseLine(line)
		assert.Contains(t, []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError, LevelFatal}, level)
		assert.LessOrEqual(t, len(text), len(line))
		assert.True(t, strings.HasSuffix(line, text) || stepPattern().MatchString(text), "nothing is made up")
		assert.True(t, utf8.ValidString(text) || !utf8.ValidString(line))
	})
}
