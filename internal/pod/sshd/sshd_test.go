package sshd

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseSettings(t *testing.T) {
	want := Settings{Listen: "[::]:2222", AuthorizedKeysFile: ".ssh/authorized_keys .ssh/authorized_keys2"}
	for version, dump := range map[string]string{
		"10.0": "port 2222\nlistenaddress [::]:2222\nlistenaddress 0.0.0.0:2222\nauthorizedkeysfile .ssh/authorized_keys .ssh/authorized_keys2\n",
		"10.6": "Port 2222\nListenAddress [::]:2222\nListenAddress 0.0.0.0:2222\nAuthorizedKeysFile .ssh/authorized_keys .ssh/authorized_keys2\n",
	} {
		require.Equal(t, want, parseSettings(dump), version)
	}
}

func TestParseAuthorizedKeysCommand(t *testing.T) {
	for dump, want := range map[string]string{
		"authorizedkeyscommand none\n": "", "AuthorizedKeysCommand none\n": "", "authorizedkeyscommand /usr/bin/keys %u\n": "/usr/bin/keys %u",
	} {
		require.Equal(t, want, parseSettings(dump).AuthorizedKeysCommand, dump)
	}
}

func TestRead(t *testing.T) {
	program := filepath.Join(t.TempDir(), "sshd")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"listenaddress 1.2.3.4:22 $*\"\n"), 0o755))
	s, err := Read(t.Context(), program, "/c")
	require.NoError(t, err)
	require.Equal(t, "1.2.3.4:22 -T -f /c", s.Listen)

	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho line 3: bad >&2; echo terminating >&2; exit 255\n"), 0o755))
	_, err = Read(t.Context(), program, "/c")
	require.EqualError(t, err, "line 3: bad; terminating")
}

func TestHostKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	_, err := HostKeys(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("there is no ssh-keygen here")
	}
	require.NoError(t, MakeHostKey(t.Context(), keygen, dir))
	keys, err := HostKeys(dir)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "ssh_host_ed25519_key")}, keys, "and not the public one")
	require.ErrorContains(t, MakeHostKey(t.Context(), "/bin/false", dir), "cannot make a host key in "+dir)
}
