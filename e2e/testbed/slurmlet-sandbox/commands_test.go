package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBadUsageNamesWhatIsAllowed(t *testing.T) {
	for want, args := range map[string][]string{
		`no command "start"; there are: up down status exec`:                {"start"},
		`up: flag provided but not defined: -node; allowed: -agent -cpus`:   {"up", "-node", "3"},
		`up: invalid value "many" for flag -nodes`:                          {"up", "-nodes", "many"},
		`up: -nodes 1000: want 0 to 64`:                                     {"up", "-nodes", "1000"},
		`up: takes no arguments, got: now`:                                  {"up", "now"},
		`exec: want POD COMMAND… after the flags, got 1 arguments`:          {"exec", "login"},
		`logs: want POD after the flags, got 0 arguments`:                   {"logs", "-f"},
		`scale: "-1": want a number of nodes, 0 to 64`:                      {"scale", "--", "-1"},
		`create: want [POD] after the flags, got 2 arguments`:               {"create", "login", "node-0"},
		`status: -o yaml: want text or json`:                                {"status", "-o", "yaml"},
		`delete: invalid value "soon" for flag -grace: parse error; allowe`: {"delete", "-grace", "soon", "node-0"},
	} {
		code, err := dispatch(t.Context(), args)
		assert.Zero(t, code)
		assert.ErrorContains(t, err, want)
		var usage usageError
		assert.ErrorAs(t, err, &usage, "%q", args)
	}
}

func TestNoSuchSandbox(t *testing.T) {
	for _, args := range [][]string{{"status"}, {"logs", "login"}, {"exec", "login", "true"}, {"down"}} {
		args = append([]string{args[0], "-name", "no-such-one"}, args[1:]...)
		_, err := dispatch(t.Context(), args)
		require.ErrorContains(t, err, `no sandbox "no-such-one" is up`)
	}
}

func TestHelp(t *testing.T) {
	for _, c := range commands {
		_, err := dispatch(t.Context(), []string{c.name, "-h"})
		assert.ErrorIs(t, err, flag.ErrHelp)
	}
}

// Each line to try is for the cluster that is up, in any shell.
func TestNextLinesNameTheCluster(t *testing.T) {
	for _, name := range []string{"default", "mine"} {
		var commands int
		for line := range strings.Lines(nextLines("bin/sandbox", "ssh -o ProxyCommand='bin/sandbox dial -name "+name+" login:22'", name)) {
			verb, found := strings.CutPrefix(line, "  bin/sandbox ")
			if !found {
				continue
			}
			commands++
			_, rest, _ := strings.Cut(verb, " ")
			assert.Equal(t, name == "mine", strings.HasPrefix(rest, "-name mine "), line)
		}
		assert.Equal(t, 8, commands)
	}
	assert.Contains(t, nextLines("s", "", "mine"), "(SLURMLET_SANDBOX_NAME=mine make down does what down does)")
}

// The command's own flags are not ours.
func TestExecLeavesTheCommandAlone(t *testing.T) {
	f := flag.NewFlagSet("exec", flag.ContinueOnError)
	execute(f)
	require.NoError(t, f.Parse([]string{"-it", "-u", "alice", "-e", "A=1", "-e", "B=2", "login", "ls", "-l", "-t"}))
	assert.Equal(t, []string{"login", "ls", "-l", "-t"}, f.Args())
}
