package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/slurmlet/slurmlet/internal/copies"
	"github.com/slurmlet/slurmlet/internal/process"
	"github.com/slurmlet/slurmlet/internal/sshd"
)

const (
	// nologin keeps users out as long as it is there (pam_nologin(8), nologin(5)).
	nologin = "/run/nologin"
	// privsepDir is sshd's, which it does not make itself.
	privsepDir = "/run/sshd"
)

// setupLimit is how long sshd may read its configuration, or ssh-keygen make a key.
const setupLimit = 20 * time.Second

// loginServices are sshd and, where it is configured, sssd before it.
func loginServices(a *Agent) ([]*service, error) {
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	directory, err := a.sssd()
	if err != nil {
		return nil, err
	}
	server, err := a.sshd(ctx)
	if err != nil {
		return nil, err
	}
	if directory == nil {
		return []*service{server}, nil
	}
	server.after = directory.name
	return []*service{directory, server}, nil
}

// servicePath is all that services inherit: sshd would answer to a notify socket,
// too, and users have no business with the agent's variables.
var servicePath = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

// sshd is what users come in by. Its configuration is the image's or the user's;
// only host keys and authorized keys are added.
func (a *Agent) sshd(ctx context.Context) (*service, error) {
	if err := errors.Join(os.MkdirAll(privsepDir, 0o755), os.RemoveAll(nologin)); err != nil {
		return nil, fmt.Errorf("cannot prepare sshd: %w", err)
	}
	keys, err := a.hostKeys(ctx)
	if err != nil {
		return nil, err
	}
	options := []string{"PidFile none"}
	for _, key := range keys {
		options = append(options, "HostKey "+key)
	}
	program, config := a.daemon.programs["sshd"], a.Config.SSHDConfig
	settings, err := sshd.Read(ctx, program, config, options)
	if err != nil {
		return nil, &Fault{ExitConfig, fmt.Errorf("SLURMLET_SSHD_CONFIG: %w", err)}
	}
	if dir := a.authorizedKeys(); dir != "" {
		options = append(options, "AuthorizedKeysFile "+settings.AuthorizedKeysFile+" "+dir+"/%u")
	}
	return a.newService(service{
		name: "sshd", answers: connects("tcp", settings.Listen),
		command: process.Command{Path: program, Args: append([]string{"-D", "-e", "-f", config}, sshd.Flags(options)...), Env: servicePath},
	}, a.sshdSaid)
}

// hostKeys are copies of those that are mounted, which sshd would find readable
// by too many. Where there are none, one is made; on a volume it stays the same.
func (a *Agent) hostKeys(ctx context.Context) ([]string, error) {
	from := a.Config.HostKeys
	keys, err := sshd.HostKeys(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(keys) == 0 {
		if err := sshd.MakeHostKey(ctx, a.daemon.programs["ssh-keygen"], from); err != nil {
			return nil, &Fault{ExitMissing, fmt.Errorf("SLURMLET_SSH_HOST_KEYS: there is no ssh_host_…_key in it: %w", err)}
		}
		a.tell(slog.LevelInfo, "made a host key; on a volume it stays the same when the container does not", slog.String("dir", from))
	}
	copied := copies.Dir{From: from, To: filepath.Join(a.Config.RunDir, "ssh_host_keys"), Mode: 0o600, UID: os.Geteuid(), GID: os.Getegid(), Wanted: sshd.IsHostKey}
	if _, err := copied.Sync(); err != nil {
		return nil, err
	}
	return sshd.HostKeys(copied.To)
}

// authorizedKeys is where sshd finds a copy of the mounted keys, a file for each
// user; "" where none are mounted. sshd would not read them where they are: every
// directory above must be writable by its owner alone (sshd_config(5), StrictModes).
func (a *Agent) authorizedKeys() string {
	keys := copies.Dir{From: a.Config.AuthorizedKeys, To: filepath.Join(a.Config.RunDir, "authorized_keys"), Mode: 0o644, UID: os.Geteuid(), GID: os.Getegid()}
	if _, err := os.Stat(keys.From); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	told := func(changed []string, err error) {
		if len(changed) > 0 {
			a.tell(slog.LevelInfo, "authorized keys have changed", slog.Any("users", changed))
		}
		if err != nil {
			a.tell(slog.LevelError, "cannot follow the authorized keys; the last ones stay", slog.Any("error", err))
		}
	}
	if _, err := keys.Sync(); err != nil {
		told(nil, err)
	}
	if err := keys.Watch(a.over, told); err != nil {
		told(nil, err)
	}
	return keys.To
}

func (a *Agent) sshdSaid(line string) {
	user, from, ok := sshd.Accepted(line)
	if !ok {
		return
	}
	if pending, err := sshd.Pending(a.Root); err == nil {
		a.visits.logins.Add(user, from, pending)
	}
	a.visits.entered.ring()
}
