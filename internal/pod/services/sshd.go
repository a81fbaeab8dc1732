package services

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/pod/copies"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/pod/sshd"
)

const (
	// Nologin keeps users out as long as it is there (pam_nologin(8), nologin(5)).
	Nologin = "/run/nologin"
	// privsepDir is sshd's, which it does not make itself.
	privsepDir = "/run/sshd"
)

// setupLimit is how long sshd may read its configuration, or ssh-keygen make a key.
const setupLimit = 20 * time.Second

// SSHD is an sshd that is to be run.
type SSHD struct {
	// Program and KeyGen are sshd and ssh-keygen.
	Program, KeyGen string
	// Config is a file, the image's or the user's. HostKeys and AuthorizedKeys are directories.
	Config, HostKeys, AuthorizedKeys string
	// RunDir is the agent's own directory.
	RunDir string
	// Lines is a directory whose files *.conf come before Config. Other ones count at once, if sshd can read them. Empty: none.
	Lines string
	// Options are lines that come before those of both.
	Options []string
	// Done is closed when the agent has ended.
	Done <-chan struct{}
	// Heard gets the text of every line that it logs, and Started the pid at each start, if it is not nil.
	Heard   func(text string)
	Started func(pid int)
}

// AddSSHD adds sshd, by which users come in. Only host keys and authorized keys are added to its configuration, and the
// Options.
func (s *Services) AddSSHD(o SSHD) (*Service, error) {
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	if err := errors.Join(os.MkdirAll(privsepDir, 0o755), os.RemoveAll(Nologin)); err != nil {
		return nil, fmt.Errorf("cannot prepare sshd: %w", err)
	}
	keys, err := s.hostKeys(ctx, o)
	if err != nil {
		return nil, err
	}
	config := &sshdConfig{
		SSHD: o, own: append([]string{"PidFile none"}, o.Options...), directorysKeys: s.directorysKeys(), keys: s.authorizedKeys(o),
	}
	for _, key := range keys {
		config.own = append(config.own, "HostKey "+key)
	}
	if err := config.open(); err != nil {
		return nil, err
	}
	answers := func(ctx context.Context) error { return process.Answers(ctx, "tcp", *config.listen.Load()) }
	one, err := s.Add("sshd", o.Program, []string{"-D", "-e", "-f", config.path()}, answers, o.Heard)
	if err != nil {
		return nil, err
	}
	one.started = o.Started
	if err := config.follow(s, one); err != nil {
		return nil, err
	}
	return one, nil
}

// hostKeys are copies of those that are mounted, which sshd would find readable
// by too many. Where there are none, one is made; on a volume it stays the same.
func (s *Services) hostKeys(ctx context.Context, o SSHD) ([]string, error) {
	keys, err := sshd.HostKeys(o.HostKeys)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(keys) == 0 {
		if err := sshd.MakeHostKey(ctx, o.KeyGen, o.HostKeys); err != nil {
			return nil, &exitcode.Fault{
				Code: exitcode.Missing,
				Err:  fmt.Errorf("SLURMLET_SSH_HOST_KEYS: there is no ssh_host_…_key in it: %w", err),
			}
		}
		s.Log(slog.LevelInfo, "made a host key; on a volume it stays the same when the container does not", slog.String("dir", o.HostKeys))
	}
	copied := copies.ForAgent(o.HostKeys, filepath.Join(o.RunDir, "ssh_host_keys"), 0o600)
	copied.Wanted = sshd.IsHostKey
	if _, err := copied.Sync(); err != nil {
		return nil, err
	}
	return sshd.HostKeys(copied.To)
}

// directorysKeys has sshd ask sssd for users' keys, if sssd runs and has its program for that (sss_ssh_authorizedkeys(1)).
func (s *Services) directorysKeys() []string {
	if !slices.ContainsFunc(s.all, func(one *Service) bool { return one.name == sssd }) {
		return nil
	}
	program, err := process.Find("sss_ssh_authorizedkeys")
	if err != nil {
		return nil
	}
	return []string{"AuthorizedKeysCommand " + program, "AuthorizedKeysCommandUser nobody"}
}

// authorizedKeys is where sshd finds a copy of the mounted keys, a file for each
// user; "" where none are mounted. sshd would not read them where they are: every
// directory above must be writable by its owner alone (sshd_config(5), StrictModes).
func (s *Services) authorizedKeys(o SSHD) string {
	keys := copies.ForAgent(o.AuthorizedKeys, filepath.Join(o.RunDir, "authorized_keys"), 0o644)
	if _, err := os.Stat(keys.From); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	report := func(changed []string, err error) {
		if len(changed) > 0 {
			s.Log(slog.LevelInfo, "authorized keys have changed", slog.Any("users", changed))
		}
		if err != nil {
			s.Log(slog.LevelError, "cannot follow the authorized keys; the last ones stay", slog.Any("error", err))
		}
	}
	if _, err := keys.Sync(); err != nil {
		report(nil, err)
	}
	if err := keys.Watch(o.Done, report); err != nil {
		report(nil, err)
	}
	return keys.To
}
