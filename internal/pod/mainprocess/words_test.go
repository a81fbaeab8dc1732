package mainprocess

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// TestTheLastErrorIsOne: what is known and harmless is no error of the status, nor is the frame of a warning. The log has
// every line.
func TestTheLastErrorIsOne(t *testing.T) {
	for text, c := range map[string]struct {
		level      slog.Level
		last, wait bool
	}{
		"cannot bind":            {slog.LevelError, true, true},
		"harmless":               {slog.LevelError, false, false},
		"passes":                 {slog.LevelError, false, true},
		"####################":   {slog.LevelError, false, false},
		"slurmd started":         {slog.LevelInfo, false, false},
		"StoragePass=secret bad": {slog.LevelError, true, true},
	} {
		t.Run(text, func(t *testing.T) {
			var heard []string
			m := New(Options{
				Heard: func(line process.Line) { heard = append(heard, line.Text) },
				IsNoise: func(line string) (harmless, passes bool) {
					return line == "harmless" || line == "passes", line == "passes"
				},
			})
			m.heard(process.Line{Level: c.level, Text: text})
			assert.Equal(t, c.last, m.LastError() != nil, "the status has it")
			assert.Equal(t, c.wait, m.words.any.Load() != nil, "a start may wait for it")
			require.Len(t, heard, 1)
			assert.NotContains(t, heard[0], "secret")
		})
	}
}

// TestWhatAStartWaitsForIsSaid: what never means anything does not take the place of what explains a start that lasts.
func TestWhatAStartWaitsForIsSaid(t *testing.T) {
	m := New(Options{
		Heard:   func(process.Line) {},
		IsNoise: func(line string) (harmless, passes bool) { return true, line == "Connection refused" },
	})
	for _, text := range []string{"Connection refused", "lookup failure"} {
		m.heard(process.Line{Level: slog.LevelError, Text: text})
	}
	assert.Nil(t, m.LastError())
	assert.Equal(t, "Connection refused", m.words.any.Load().Text)
}
