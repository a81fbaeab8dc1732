package server

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestBadCommands(t *testing.T) {
	for want, args := range map[string][]string{
		`no verb "dance"; there are: create delete elastic exec`: {"dance"},
		`kill: got 1 arguments, want: POD SIGNAL`:                {"kill", "a"},
		`exec: got 2 arguments, want: POD HOW COMMAND…`:          {"exec", "a", "{}"},
		`no signal NONE; want a name such as TERM`:               {"kill", "a", "NONE"},
		`cannot delete pod: time: invalid duration`:              {"delete", "a", "soon"},
		`cannot create pod: json: unknown field "nmae"`:          {"create"},
	} {
		var out, errs bytes.Buffer
		code := (&server{}).Execute(t.Context(), remote.Command{Args: args, Stdin: strings.NewReader(`{"nmae":"a"}`), Stdout: &out, Stderr: &errs})
		assert.Equal(t, remote.Failed, code)
		assert.Contains(t, errs.String(), want)
	}
}

func TestSignal(t *testing.T) {
	for _, name := range []string{"TERM", "term", "SIGTERM", "15"} {
		sig, err := signal(name)
		require.NoError(t, err)
		assert.Equal(t, unix.SIGTERM, sig)
	}
	for _, bad := range []string{"", "0", "65", "-9", "KIL"} {
		_, err := signal(bad)
		assert.Error(t, err, bad)
	}
}

func TestTail(t *testing.T) {
	log := strings.NewReader("one\ntwo\n")
	var out bytes.Buffer
	asked := 0
	err := tail(t.Context(), &out, log, func() bool {
		asked++
		if asked == 2 {
			log.Reset("three\n")
		}
		return asked < 3
	})
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo\nthree\n", out.String())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, tail(ctx, &out, log, func() bool { return true }))
}

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	want := Settings{Name: "a", Guest: true, Root: "/r", Cgroup: "/", CPUs: 2}
	require.NoError(t, want.Write(dir))
	got, err := ReadSettings(dir)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}
