package slurm

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slow is a program that writes its own number and its child's, prints a line, and then waits for
// ever with its child.
const slow = `#!/bin/sh
sleep 1000 &
echo $$ $! > "$(dirname "$0")/pids.new"
mv "$(dirname "$0")/pids.new" "$(dirname "$0")/pids"
echo first line
wait
`

// TestStream: what a command prints is read as it comes, and its failure counts.
func TestStream(t *testing.T) {
	for name, c := range map[string]struct {
		stdout, stderr, status string
		reader                 error
		want                   string
	}{
		"an answer":                  {"text", "", "0", nil, ""},
		"a fault":                    {"", "scontrol: error: it is wrong\n", "1", nil, "scontrol: it is wrong"},
		"a fault, and half a text":   {"half", "scontrol: error: it is wrong\n", "1", io.ErrUnexpectedEOF, "scontrol: it is wrong"},
		"a text that cannot be read": {"text", "", "0", io.ErrUnexpectedEOF, "cannot read the answer of scontrol: unexpected EOF"},
		"silence":                    {"", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", "1", nil, "Unable to contact"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			err := scontrol(t, c.stdout, c.stderr, c.status).Stream(t.Context(), func(from io.Reader) (err error) {
				got, err = io.ReadAll(from)
				return errors.Join(err, c.reader)
			}, "scontrol", "--json")
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
			assert.Equal(t, c.stdout, string(got))
			assert.Equal(t, name == "silence", errors.Is(err, ErrUnreachable))
		})
	}
}

// TestStreamOutlivesItsReader: a fault of the reader's is an error.
func TestStreamOutlivesItsReader(t *testing.T) {
	err := scontrol(t, "text", "", "0").Stream(t.Context(), func(io.Reader) error { panic("oh") }, "scontrol", "--json")
	require.ErrorContains(t, err, "slurmlet failed as it read: oh")
}

// TestStreamLeavesNothing: the command and its children have ended when Stream returns, or do at once.
func TestStreamLeavesNothing(t *testing.T) {
	for name, reader := range map[string]func(context.CancelFunc) func(io.Reader) error{
		"the time is over": func(end context.CancelFunc) func(io.Reader) error {
			return func(from io.Reader) error {
				_, err := from.Read(make([]byte, 100))
				end()
				return err
			}
		},
		"the reader gives up": func(context.CancelFunc) func(io.Reader) error {
			return func(from io.Reader) error {
				_, err := from.Read(make([]byte, 100))
				return errors.Join(err, io.ErrUnexpectedEOF)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "squeue"), []byte(slow), 0o755))
			ctx, end := context.WithCancel(t.Context())
			defer end()
			err := Scontrol{Path: filepath.Join(dir, "scontrol"), Env: os.Environ()}.Stream(ctx, reader(end), "squeue")
			require.Error(t, err)
			assert.Equal(t, name == "the time is over", errors.Is(err, ErrUnreachable), err)
			pids, err := os.ReadFile(filepath.Join(dir, "pids"))
			require.NoError(t, err)
			for text := range strings.FieldsSeq(string(pids)) {
				pid, err := strconv.Atoi(text)
				require.NoError(t, err)
				assert.Eventually(t, func() bool { return ended(pid) }, time.Minute, 10*time.Millisecond, "process %d lives", pid)
			}
		})
	}
}

// ended says whether a process has ended, be it collected or not.
func ended(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}
