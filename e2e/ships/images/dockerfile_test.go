package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryInstallIsTidied: setuid files and keys of packages are in a layer for ever, once it has ended.
func TestEveryInstallIsTidied(t *testing.T) {
	text, err := os.ReadFile("../../../images/Dockerfile")
	require.NoError(t, err)
	_, images, found := strings.Cut(string(text), "\nFROM scratch AS ") // what is before it compiles, and is in no image
	require.True(t, found)
	installs := 0
	for _, run := range strings.Split(images, "\nRUN ")[1:] {
		script, _, _ := strings.Cut(run, "\nEOF\n")
		if !strings.Contains(script, "apt-get install") {
			continue
		}
		installs++
		lines := strings.Split(strings.TrimSpace(script), "\n")
		assert.Equal(t, "/tidy", lines[len(lines)-1], "%s", script)
	}
	assert.Equal(t, 3, installs)
}
