package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
)

func TestInstall(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile(slurmlet)
	require.NoError(t, err)
	older := append(bytes.Clone(program), "of another version"...)
	put := func(name string, content []byte, mode os.FileMode) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, mode))
		}
	}
	for _, c := range []struct {
		name  string
		given func(t *testing.T, dir string)
		code  int
		says  string
	}{
		{"an empty directory", func(*testing.T, string) {}, agent.ExitOK, ""},
		{"the same program", put("slurmlet", program, 0o755), agent.ExitOK, ""},
		{"the same program, not executable", put("slurmlet", program, 0o600), agent.ExitOK, ""},
		{"another version", put("slurmlet", older, 0o755), agent.ExitOK, ""},
		{"what a killed install has left", put("slurmlet.part", program[:1000], 0o755), agent.ExitOK, ""},
		{"somebody's file", put("slurmlet", []byte("#!/bin/sh\n"), 0o755), agent.ExitFailure, "/slurmlet is not a slurmlet: move it away, or choose another directory"},
		{"a link", func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink(slurmlet, filepath.Join(dir, "slurmlet")))
		}, agent.ExitFailure, "/slurmlet is no file"},
		{"a directory", func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(filepath.Join(dir, "slurmlet"), 0o755))
		}, agent.ExitFailure, "/slurmlet is no file"},
		{"no directory", func(t *testing.T, dir string) { require.NoError(t, os.Remove(dir)) }, agent.ExitFailure, "no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "bin")
			require.NoError(t, os.Mkdir(dir, 0o755))
			c.given(t, dir)
			before, _ := os.ReadFile(filepath.Join(dir, "slurmlet"))

			have := surroundings{}.run(t, "install", dir)
			require.Equal(t, c.code, have.code, have)
			require.Contains(t, have.stderr, c.says)
			installed, _ := os.ReadFile(filepath.Join(dir, "slurmlet"))
			if c.code != agent.ExitOK {
				require.True(t, bytes.Equal(before, installed), "an install that fails changes nothing")
				return
			}
			require.True(t, bytes.Equal(program, installed))
			info, err := os.Stat(filepath.Join(dir, "slurmlet"))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o755), info.Mode())
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "nothing else is left")
		})
	}
}

// A program that runs cannot be written to, but it can be replaced.
func TestInstallReplacesAProgramThatRuns(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile(slurmlet)
	require.NoError(t, err)
	dir := t.TempDir()
	path := filepath.Join(dir, "slurmlet")
	// A child that another test starts meanwhile would hold the file open until its execve.
	syscall.ForkLock.RLock()
	err = os.WriteFile(path, append(bytes.Clone(program), "of another version"...), 0o755)
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	running := exec.CommandContext(t.Context(), path)
	running.SysProcAttr = &syscall.SysProcAttr{Ptrace: true} // it stops at its first instruction
	require.NoError(t, running.Start())
	defer func() {
		_ = running.Process.Kill()
		_ = running.Wait()
	}()
	require.ErrorIs(t, os.WriteFile(path, program, 0o755), syscall.ETXTBSY)

	require.Zero(t, surroundings{}.run(t, "install", dir).code)
	installed, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(program, installed))
}

// TestInstallCompanions: what jobs' containers need comes along from beside the program, and takes no place of others.
func TestInstallCompanions(t *testing.T) {
	t.Parallel()
	image, dir := t.TempDir(), t.TempDir()
	program, err := os.ReadFile(slurmlet)
	require.NoError(t, err)
	syscall.ForkLock.RLock()
	err = os.WriteFile(filepath.Join(image, "slurmlet"), program, 0o755)
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	for name, mark := range companions {
		require.NoError(t, os.WriteFile(filepath.Join(image, name), []byte(mark+" new"), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(image, "other"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "slurmlet-import"), []byte(companions["slurmlet-import"]+" old"), 0o600))
	run := func() (string, error) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(image, "slurmlet"), "install", dir).CombinedOutput()
		return string(out), err
	}
	out, err := run()
	require.NoError(t, err, out)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, len(companions)+1)
	for name, mark := range companions {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, mark+" new", string(text))
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o755), info.Mode())
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "slurmlet-container"), []byte("#!/bin/sh"), 0o755))
	out, err = run()
	require.Error(t, err)
	require.Contains(t, out, "/slurmlet-container is not a slurmlet: move it away")
}

func TestInstallIsMisused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {""}, {"a", "b"}} {
		have := surroundings{}.run(t, append([]string{"install"}, args...)...)
		require.Equal(t, agent.ExitUsage, have.code)
		require.Contains(t, have.stderr, "install: want one directory")
	}
}
