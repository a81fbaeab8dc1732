package jobs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestJobSignal(t *testing.T) {
	for text, want := range map[string]Signal{
		"":             {},
		"USR1":         {"USR1", false, time.Minute},
		"sigusr1@0":    {"USR1", false, 0},
		"B:TERM@120":   {"TERM", true, 2 * time.Minute},
		"10@65535":     {"10", false, 65535 * time.Second},
		"B:SIGUSR2@10": {"USR2", true, 10 * time.Second},
	} {
		got, err := ParseSignal(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"B:", "@10", "USR3", "0", "65", "USR1@", "USR1@-1", "USR1@65536", "USR1@1m", "R:USR1", "U SR1", "USR1 USR2"} {
		_, err := ParseSignal(text)
		assert.Error(t, err, text)
	}
}
