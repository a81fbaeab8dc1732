package papers

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// TestKubernetesPage: the page lists what wellknown has, and wellknown all keys of the programs and charts.
func TestKubernetesPage(t *testing.T) {
	unknown, err := UnknownKeys(root)
	require.NoError(t, err)
	assert.Empty(t, unknown, "internal/kit/wellknown does not list these")
	comparePage(t, kubernetesPage, KubernetesPage(), "TestKubernetesPage")
}

// TestEventsAreWritten: the controller has each reason of wellknown's events.
func TestEventsAreWritten(t *testing.T) {
	var all strings.Builder
	for _, pattern := range []string{"controller/internal/*/*.go", "controller/peerserver/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			all.Write(text)
		}
	}
	for _, e := range wellknown.Events {
		assert.Contains(t, all.String(), strconv.Quote(e.Reason))
	}
}

// defaultPort is the port of an address in a table of settings. No port is below 2000, and a least uid is.
var defaultPort = regexp.MustCompile(`(?m)(?:\| :?([2-9]\d{3}) \||\(:(\d{4})\)$)`)

// TestPorts: the page of ports has each port that is a default of the agent or of the controller.
func TestPorts(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "ports.md"))
	require.NoError(t, err)
	found := 0
	for _, name := range []string{"docs/reference/settings.md", "controller/doc.go"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		for _, m := range defaultPort.FindAllStringSubmatch(string(text), -1) {
			found++
			assert.Contains(t, string(page), "| "+m[1]+m[2]+" |", name)
		}
	}
	assert.GreaterOrEqual(t, found, 6)
}
