//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// hostlists compares the package with scontrol on generated expressions: 400 of
// them, 20,000 with SLURMLET_E2E_FULL=1; SLURMLET_HOSTLIST_SEED repeats a run.
func hostlists(t *testing.T, c *cluster) {
	amount := rounds(400, 20000)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SLURMLET_HOSTLIST_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("SLURMLET_HOSTLIST_SEED=%d", seed)
	writer := expressionWriter{rand.New(rand.NewPCG(seed, 0))}
	var expressions []string
	for len(expressions) < amount {
		// scontrol's time grows with the square of the hosts.
		if e := writer.expression(); e != "" && !tooLong(e) {
			expressions = append(expressions, e)
		}
	}
	start := time.Now()
	answers := c.askHostlists(t, expressions)
	t.Logf("scontrol took %v for %d expressions", time.Since(start).Round(time.Millisecond), amount)
	refused, lost := 0, 0
	for i, expression := range expressions {
		if answers[i].refused {
			refused++
		}
		ours := answerOf(t, expression)
		if ours.refused && strings.Count(expression, "[") > 2 {
			continue // Slurm logs the fault, if at all, and goes on without these hosts.
		}
		if answers[i].sorted != ours.sorted && (answers[i].bracketed() || !answers[i].sameHosts()) {
			lost++
			require.True(t, ours.sameHosts(), "%s", expression)
			ours.sorted = answers[i].sorted
		}
		require.Equal(t, answers[i], ours, "%s", expression)
	}
	t.Logf("scontrol refused %d, and lost or made hosts when it sorted %d", refused, lost)
	assert.Greater(t, refused, amount/50)
	assert.Less(t, refused, amount/2)
	assert.Less(t, lost, amount/20)
}

func tooLong(expression string) bool {
	n, err := hostlist.Count(expression)
	return err == nil && n > 1000
}

// answer is what `scontrol show` prints of an expression: hostnames, hostlist,
// hostlistsorted.
type answer struct {
	names, list, sorted string
	refused             bool
}

func answerOf(t *testing.T, expression string) answer {
	l, err := hostlist.Parse(expression)
	if err != nil {
		return answer{refused: true}
	}
	n, err := hostlist.Count(expression)
	require.NoError(t, err)
	require.EqualValues(t, n, l.Len(), "%s", expression)
	return answer{strings.Join(slices.Collect(l.All()), "\n"), l.String(), l.Sorted().String(), false}
}

// sameHosts tells whether the sorted list has the hosts of the other one, as
// often, as far as it can be told.
func (a answer) sameHosts() bool {
	list, _ := hostlist.Parse(a.list)
	sorted, _ := hostlist.Parse(a.sorted)
	return a.bracketed() || slices.Equal(slices.Sorted(list.All()), slices.Sorted(sorted.All()))
}

// bracketed names are printed so that other names are read.
func (a answer) bracketed() bool { return strings.ContainsAny(a.names, "[]") }

// askHostlists gives all questions to one scontrol, which reads them from its
// input. Marks between them tell the answers apart, one that is a host and one
// that is none.
func (c *cluster) askHostlists(t *testing.T, expressions []string) []answer {
	var questions, stdout, stderr bytes.Buffer
	for _, e := range expressions {
		fmt.Fprintf(&questions, "show hostnames %s\nshow hostlist %[1]s\nshow hostlistsorted %[1]s\nshow hostnames @\nshow hostnames @[\n", e)
	}
	_, err := c.Attach(t.Context(), sandbox.Slurmctld, sandbox.How{}, sandbox.Streams{Stdin: &questions, Stdout: &stdout, Stderr: &stderr}, "scontrol")
	require.NoError(t, err)
	printed := sections(stdout.String(), "@\n")
	complaints := sections(stderr.String(), "Invalid hostlist: @[\n")
	// Not require.Len, which would print them all.
	require.True(t, len(printed) == len(expressions) && len(complaints) == len(printed), "%d and %d answers, %.1000s", len(printed), len(complaints), stderr.String())
	answers := make([]answer, len(expressions))
	for i := range answers {
		if len(complaints[i]) > 0 {
			answers[i].refused = true
			continue
		}
		last := len(printed[i]) - 1
		require.Positive(t, last, "%s: %q", expressions[i], printed[i])
		answers[i] = answer{names: strings.Join(printed[i][:last-1], "\n"), list: printed[i][last-1], sorted: printed[i][last]}
	}
	return answers
}

// sections are the lines that were printed before each mark, without scontrol's
// echo.
func sections(output, mark string) (all [][]string) {
	var section []string
	for line := range strings.Lines(output) {
		switch {
		case line == mark:
			all = append(all, section)
			section = nil
		case !strings.HasPrefix(line, "scontrol: show ") && !strings.HasPrefix(line, "scontrol: \r"):
			section = append(section, strings.TrimSuffix(line, "\n"))
		}
	}
	return all
}

// expressionWriter writes hostlists: most are good, some have a fault, and many
// have hosts that overlap, repeat or differ in their zeros.
type expressionWriter struct{ *rand.Rand }

func (w expressionWriter) expression() string {
	words := make([]string, 1+w.IntN(1+w.IntN(6)))
	stem := w.stem()
	for i := range words {
		if w.IntN(3) == 0 {
			stem = w.stem()
		}
		words[i] = w.word(stem)
	}
	expression := strings.Join(words, w.pick(",", ",", ",", ",,"))
	if expression != "" && w.IntN(25) == 0 {
		expression = w.damaged(expression)
	}
	return expression
}

func (w expressionWriter) word(stem string) string {
	word := stem
	brackets := []int{0, 1, 1, 1, 1, 1, 2, 2, 3}[w.IntN(9)]
	if brackets == 0 {
		return word + w.pick("", w.number(), w.number(), w.number())
	}
	for i := range brackets {
		if i > 0 {
			word += w.pick("", "b", "-", "0", "x7", ".")
		}
		word += "[" + w.numbers(brackets) + "]"
	}
	return word + w.pick("", "", "", "", "", "-ib", "7", ".local")
}

func (w expressionWriter) stem() string {
	return w.pick("n", "n", "n", "node", "nid0000", "rack1-", "rack10-", "rack2-", "N", "a1b", "", "n0", "x", "a.b", "n9")
}

func (w expressionWriter) numbers(brackets int) string {
	parts := make([]string, 1+w.IntN(1+w.IntN(5)))
	for i := range parts {
		parts[i] = w.number()
		if w.IntN(2) == 0 {
			lo, _ := strconv.Atoi(parts[i])
			hi := lo + w.IntN(24/(brackets*brackets)+1)
			parts[i] += "-" + w.pick(strconv.Itoa(hi), strconv.Itoa(hi), fmt.Sprintf("%0*d", len(parts[i]), hi))
		}
		if w.IntN(150) == 0 {
			parts[i] = w.pick("", "x", "a", "1-", "-1", "5-3", "1--2", "1-2-3", "+1", "1a-3", "3-a", "0-65536", "7-99999999", "1x2", "00000000000000001", "2147483640-2147483647")
		}
	}
	return strings.Join(parts, ",")
}

func (w expressionWriter) number() string {
	n := w.pick(strconv.Itoa(w.IntN(12)), strconv.Itoa(w.IntN(12)), strconv.Itoa(w.IntN(200)), strconv.Itoa(95+w.IntN(10)), strconv.Itoa(w.IntN(20000)))
	return strings.Repeat("0", []int{0, 0, 0, 0, 1, 1, 2, 3}[w.IntN(8)]) + n
}

// damaged leaves out, repeats or changes a byte, if one that scontrol would not
// take apart before it reads a host list.
func (w expressionWriter) damaged(s string) string {
	i := w.IntN(len(s))
	s = s[:i] + w.pick("", s[i:i+1]+s[i:i+1], "[", "]", "-", "=", "~", "_", "1", ":") + s[i+1:]
	return "h" + s
}

func (w expressionWriter) pick(from ...string) string { return from[w.IntN(len(from))] }
