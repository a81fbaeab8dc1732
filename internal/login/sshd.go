package login

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/login/sshd"
	"github.com/slurmlet/slurmlet/internal/pod/copies"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

const (
	// nologin keeps users out as long as it is there (pam_nologin(8), nologin(5)).
	nologin = "/run/nologin"
	// privsepDir is sshd's, which it does not make itself.
	privsepDir = "/run/sshd"
)

// setupLimit is how long sshd may read its configuration, or ssh-keygen make a key.
const setupLimit = 20 * time.Second

// sshd is what users come in by. Its configuration is the image's or the user's;
// only host keys and authorized keys are added.
func (l *Login) sshd() (*service, error) {
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	if err := errors.Join(os.MkdirAll(privsepDir, 0o755), os.RemoveAll(nologin)); err != nil {
		return nil, fmt.Errorf("cannot prepare sshd: %w", err)
	}
	keys, err := l.hostKeys(ctx)
	if err != nil {
		return nil, err
	}
	options := []string{"PidFile none"}
	for _, key := range keys {
		options = append(options, "HostKey "+key)
	}
	settings, err := sshd.Read(ctx, l.SSHD, l.SSHDConfig, options)
	if err != nil {
		return nil, &exitcode.Fault{Code: exitcode.Config, Err: fmt.Errorf("SLURMLET_SSHD_CONFIG: %w", err)}
	}
	if dir := l.authorizedKeys(); dir != "" {
		options = append(options, "AuthorizedKeysFile "+settings.AuthorizedKeysFile+" "+dir+"/%u")
	}
	answers := func(ctx context.Context) error { return process.Answers(ctx, "tcp", settings.Listen) }
	return l.newService("sshd", l.SSHD, append([]string{"-D", "-e", "-f", l.SSHDConfig}, sshd.Flags(options)...), answers, l.sshdSaid)
}

// hostKeys are copies of those that are mounted, which sshd would find readable
// by too many. Where there are none, one is made; on a volume it stays the same.
func (l *Login) hostKeys(ctx context.Context) ([]string, error) {
	keys, err := sshd.HostKeys(l.HostKeys)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(keys) == 0 {
		if err := sshd.MakeHostKey(ctx, l.KeyGen, l.HostKeys); err != nil {
			return nil, &exitcode.Fault{
				Code: exitcode.Missing,
				Err:  fmt.Errorf("SLURMLET_SSH_HOST_KEYS: there is no ssh_host_…_key in it: %w", err),
			}
		}
		l.Log(slog.LevelInfo, "made a host key; on a volume it stays the same when the container does not", slog.String("dir", l.HostKeys))
	}
	copied := l.copyOf(l.HostKeys, "ssh_host_keys", 0o600)
	copied.Wanted = sshd.IsHostKey
	if _, err := copied.Sync(); err != nil {
		return nil, err
	}
	return sshd.HostKeys(copied.To)
}

// authorizedKeys is where sshd finds a copy of the mounted keys, a file for each
// user; "" where none are mounted. sshd would not read them where they are: every
// directory above must be writable by its owner alone (sshd_config(5), StrictModes).
func (l *Login) authorizedKeys() string {
	keys := l.copyOf(l.AuthorizedKeys, "authorized_keys", 0o644)
	if _, err := os.Stat(keys.From); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	report := func(changed []string, err error) {
		if len(changed) > 0 {
			l.Log(slog.LevelInfo, "authorized keys have changed", slog.Any("users", changed))
		}
		if err != nil {
			l.Log(slog.LevelError, "cannot follow the authorized keys; the last ones stay", slog.Any("error", err))
		}
	}
	if _, err := keys.Sync(); err != nil {
		report(nil, err)
	}
	if err := keys.Watch(l.Done, report); err != nil {
		report(nil, err)
	}
	return keys.To
}

// copyOf a mounted directory is the agent's user's alone.
func (l *Login) copyOf(from, name string, mode fs.FileMode) copies.Dir {
	return copies.Dir{From: from, To: filepath.Join(l.RunDir, name), Mode: mode, UID: os.Geteuid(), GID: os.Getegid()}
}

// sshdSaid looks for a login in a line of sshd's log.
func (l *Login) sshdSaid(line string) {
	user, from, ok := sshd.Accepted(line)
	if !ok {
		return
	}
	if pending, err := sshd.Pending(l.Root); err == nil {
		l.logins.Add(user, from, pending)
	}
	select {
	case l.accepted <- struct{}{}:
	default: // it is looked for already
	}
}
