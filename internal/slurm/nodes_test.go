package slurm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNodes: what is read node by node is what is read at once.
func TestNodes(t *testing.T) {
	for _, version := range []string{"24.11", "26.05"} {
		t.Run(version, func(t *testing.T) {
			text := manyNodes(t, version, 3)
			var whole struct {
				Nodes []Node `json:"nodes"`
			}
			require.NoError(t, json.Unmarshal(text, &whole))
			s := scontrol(t, string(text), "", "0")
			nodes, err := s.Nodes(t.Context())
			require.NoError(t, err)
			assert.Equal(t, whole.Nodes, nodes)
			assert.Equal(t, "show nodes --json\n", calls(t, s))
		})
	}
}

// TestNoNodes: an answer that is cut, broken or a refusal is no list.
func TestNoNodes(t *testing.T) {
	text := string(manyNodes(t, "24.11", 2))
	for name, c := range map[string]struct{ stdout, stderr, status, want string }{
		"cut":           {text[:len(text)/2], "", "0", "cannot read the answer of scontrol show nodes --json: unexpected EOF"},
		"cut at a node": {`{"nodes": [{"name": "n1"},`, "", "0", "cannot read the answer of scontrol show nodes --json: "},
		"empty":         {"", "", "0", "cannot read the answer of scontrol show nodes --json: EOF"},
		"no object":     {`[]`, "", "0", "want {, not ["},
		"no list":       {`{"nodes": 5}`, "", "0", "want a list of nodes, not 5"},
		"two answers":   {`{"nodes": []} {"nodes": []}`, "", "0", "there is more after the answer's end"},
		"told in JSON":  {`{"errors": [{"description": "Slurmctld", "error": "is starting"}], "nodes": []}`, "", "0", "Slurmctld is starting"},
		"half, then silence": {
			text[:len(text)/2], "slurm_load_node error: Unable to contact slurm controller (connect failure)\n", "1",
			"scontrol show nodes --json: slurm_load_node error: Unable to contact slurm controller (connect failure)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scontrol(t, c.stdout, c.stderr, c.status).Nodes(t.Context())
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestNamesWith: the nodes of a reason are found in text, of whatever length. Lines are those of 24.11.5 and 26.05.5.
func TestNamesWith(t *testing.T) {
	const text = "slurmlet: the pod is gone, and "
	line := func(name, rest string) string {
		return "NodeName=" + name + " CoresPerSocket=1  CPUAlloc=0 Partitions=all  AllocTRES= CurrentWatts=0 AveWatts=0  " + rest + "\n"
	}
	kept := "Reason=" + text + "job 7 names the node [root@2026-11-27T23:06:04]"
	for name, c := range map[string]struct {
		stdout, status, want string
		names                []string
	}{
		"one":              {line("n1", "") + line("n2", kept) + line("n3", "Reason=fan [root@2026-11-27T23:06:04]"), "0", "", []string{"n2"}},
		"a comment's line": {line("n1", "Comment=a") + "b " + text + "\n" + text + "\n" + line("n2", ""), "0", "", []string{"n1"}},
		"long":             {line("n1", strings.Repeat("x", 1<<17)+kept), "0", "", []string{"n1"}},
		"longer":           {line("n1", strings.Repeat("x", mostLine)+kept), "0", "cannot read the answer of scontrol", nil},
		"no node":          {"No nodes in the system\n", "0", "", nil},
		"nothing":          {"", "0", "it names no node", nil},
		"something else":   {text + "\n", "0", "it names no node", nil},
		"failed":           {line("n1", kept), "1", "scontrol", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := scontrol(t, c.stdout, "", c.status)
			names, err := s.NamesWith(t.Context(), text)
			require.Equal(t, c.names, names)
			require.Equal(t, "show nodes --oneliner\n", calls(t, s))
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
		})
	}
}

// manyNodes is the answer for so many nodes.
func manyNodes(t testing.TB, version string, count int) []byte {
	text, err := os.ReadFile(filepath.Join("testdata", "node-"+version+".json"))
	require.NoError(t, err)
	var answer map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &answer))
	var nodes []json.RawMessage
	require.NoError(t, json.Unmarshal(answer["nodes"], &nodes))
	var list bytes.Buffer
	for i := range count {
		list.WriteString(map[bool]string{true: "[", false: ","}[i == 0])
		list.WriteString(strings.Replace(string(nodes[0]), `"n1"`, fmt.Sprintf(`"n%d"`, i+1), 1))
	}
	list.WriteString("]")
	answer["nodes"] = list.Bytes()
	all, err := json.Marshal(answer)
	require.NoError(t, err)
	return all
}

// BenchmarkNodes reads the answer for 10,000 nodes, at once and node by node. live-MB is the
// most that the heap held, without garbage.
func BenchmarkNodes(b *testing.B) {
	text := manyNodes(b, "26.05", 10_000)
	for name, read := range map[string]func(*heapMeter) []Node{
		"held": func(m *heapMeter) []Node {
			var out bytes.Buffer
			var answer struct {
				Nodes []Node `json:"nodes"`
			}
			_, err := out.ReadFrom(m)
			require.NoError(b, err)
			require.NoError(b, read("", out.Bytes(), &answer))
			m.look()
			runtime.KeepAlive(out)
			return answer.Nodes
		},
		"streamed": func(m *heapMeter) []Node {
			var list nodeList
			require.NoError(b, list.read(m))
			m.look()
			return list.nodes
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			var most uint64
			for b.Loop() {
				m := &heapMeter{from: bytes.NewReader(text)}
				m.look()
				before := m.most
				require.Len(b, read(m), 10_000)
				most = max(most, m.most-before)
			}
			b.ReportMetric(float64(most)/1e6, "live-MB")
		})
	}
}

// heapMeter looks at the heap after each megabyte that is read.
type heapMeter struct {
	from       io.Reader
	read, last int
	most       uint64
}

func (m *heapMeter) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	if m.read += n; m.read-m.last >= 1<<20 {
		m.last = m.read
		m.look()
	}
	return n, err
}

func (m *heapMeter) look() {
	var now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&now)
	m.most = max(m.most, now.HeapAlloc)
}
