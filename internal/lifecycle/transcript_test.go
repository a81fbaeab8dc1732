package lifecycle

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The files testdata/*.txt are transcripts: events, and what Step made of each. -update writes
// them anew, and git diff then shows what has changed. Beside this file, transcript_words_test.go
// lists the words, transcript_reader_test.go reads lines, transcript_writer_test.go writes them, and
// transcript_state_test.go compares states.
//
//	== a job is there             begins a case.
//	# why it is so                is a comment, and so is what follows two blanks and a # on a line.
//	life node grace=30s           is the first state of a role (lives), and its fields.
//	from Ready                    is the state in which an earlier case of the file has ended.
//	answer record=MIXED steps=1   is an event: a word (eventWords), and each field that is not as usual.
//	  -> drain #4 reason="..."    is an action that Step returned.
//	  phase: Resizing             is a field of the state that has changed ("-" is none).
//
// Every question, change and timer has a number (#4). An answer without a number is for the open
// question, and a timer without one is the armed timer. Times count from one moment on (+1m0s).
// A record is that of an idle node of 1 CPU, except for what the answer says: its state (record),
// cpus, reason, weight, features, suspended jobs, and when its slurmd started (slurmd). no-record
// says that slurmctld has no record of the node. An answer without either says that the daemon serves.

var update = flag.Bool("update", false, "write the transcripts anew")

func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			written, err := os.ReadFile(file)
			require.NoError(t, err)
			cases, _, err := replay(string(written))
			require.NoError(t, err)
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(strings.Join(cases, "")), 0o644))
				return
			}
			for i, was := range inCases(string(written)) {
				name, _, _ := strings.Cut(strings.TrimPrefix(was, "== "), "\n")
				t.Run(name, func(t *testing.T) {
					assert.Equal(t, was, cases[i], "-update writes it anew")
				})
			}
		})
	}
}

// inCases divides a transcript. Lines before the first case are a case of their own, the first.
func inCases(text string) []string {
	var cases []string
	for line := range strings.Lines(text) {
		if len(cases) == 0 || strings.HasPrefix(line, "== ") {
			cases = append(cases, "")
		}
		cases[len(cases)-1] += line
	}
	return cases
}

// replay gives a transcript's events to Step, and returns its cases as they are now. last is the
// state at its end.
func replay(text string) (cases []string, last State, err error) {
	ended := map[string]State{}
	for _, was := range inCases(text) {
		var now strings.Builder
		name := ""
		for line := range strings.Lines(was) {
			if strings.HasPrefix(line, "  ") {
				continue // Step decides what is here
			}
			now.WriteString(line)
			word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			switch word {
			case "", "#":
			case "==":
				if _, twice := ended[rest]; twice {
					return nil, last, fmt.Errorf("there are two cases %q", rest)
				}
				name = rest
			case "from":
				l, is := ended[rest]
				if !is {
					return nil, last, fmt.Errorf("case %q: no case %q has ended before", name, rest)
				}
				last = l
			case "life":
				if last, err = readLife(rest); err != nil {
					return nil, last, fmt.Errorf("case %q: %w", name, err)
				}
			default:
				e, err := readEvent(last, line)
				if err != nil {
					return nil, last, fmt.Errorf("case %q: %w", name, err)
				}
				next, actions := Step(last, e)
				for _, a := range actions {
					fmt.Fprintf(&now, "  -> %s\n", formatAction(a))
				}
				now.WriteString(changes(last, next))
				last = next
			}
		}
		ended[name] = last
		cases = append(cases, now.String())
	}
	return cases, last, nil
}
