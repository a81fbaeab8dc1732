// Package sshd is what the agent must know of OpenSSH's server: what it makes of
// its configuration, its host keys, and who is logged in.
package sshd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/child"
)

// Settings are those that the agent adds to, or needs (sshd_config(5)).
type Settings struct {
	// Listen is the first address that sshd listens on, host:port.
	Listen string
	// AuthorizedKeysFile are patterns of files, separated by spaces.
	AuthorizedKeysFile string
	// AuthorizedKeysCommand is a program with its arguments, empty for none.
	AuthorizedKeysCommand string
	// LogLevel is one of sshd's names, as INFO.
	LogLevel string
}

// Read has sshd read its configuration file. The error is sshd's own word on what is wrong.
func Read(ctx context.Context, program, file string) (Settings, error) {
	said, err := run(ctx, program, "-T", "-f", file)
	if err != nil {
		return Settings{}, err
	}
	return parseSettings(said), nil
}

// parseSettings reads sshd's dump. Keywords are in small letters up to OpenSSH
// 10.0, and as in the manual page later (10.6).
func parseSettings(dump string) Settings {
	var s Settings
	for line := range strings.Lines(dump) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch strings.ToLower(key) {
		case "listenaddress":
			s.Listen = cmp.Or(s.Listen, value)
		case "authorizedkeysfile":
			s.AuthorizedKeysFile = value
		case "loglevel":
			s.LogLevel = value
		case "authorizedkeyscommand":
			if value != "none" {
				s.AuthorizedKeysCommand = value
			}
		}
	}
	return s
}

// IsHostKey says whether a file of that name is a private host key: as
// ssh-keygen -A names them.
func IsHostKey(name string) bool {
	return strings.HasPrefix(name, "ssh_host_") && strings.HasSuffix(name, "_key")
}

// HostKeys are the paths of the host keys in a directory.
func HostKeys(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot look for host keys: %w", err)
	}
	var keys []string
	for _, e := range entries {
		if IsHostKey(e.Name()) {
			keys = append(keys, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// MakeHostKey makes one (Ed25519) in a directory, which is made if need be.
func MakeHostKey(ctx context.Context, keygen, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make a host key: %w", err)
	}
	if _, err := run(ctx, keygen, "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", filepath.Join(dir, "ssh_host_ed25519_key")); err != nil {
		return fmt.Errorf("cannot make a host key in %s: %w", dir, err)
	}
	return nil
}

func run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := child.Run(cmd); err != nil {
		if said := strings.TrimSpace(errs.String()); said != "" {
			return "", errors.New(strings.Join(strings.Split(said, "\n"), "; "))
		}
		return "", err
	}
	return out.String(), nil
}
