package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slurmlet/slurmlet/internal/copies"
	"github.com/slurmlet/slurmlet/internal/process"
)

// sssdSocket is where programs ask sssd for users (sss, in nsswitch.conf(5)).
const sssdSocket = "/var/lib/sss/pipes/nss"

// nodeServices is sssd, where it is configured: jobs are looked up by their users. On a
// machine with systemd it is systemd's to run.
func nodeServices(a *Agent) ([]*service, error) {
	if os.Getenv("NOTIFY_SOCKET") != "" {
		return nil, nil
	}
	directory, err := a.sssd()
	if err != nil || directory == nil {
		return nil, err
	}
	return []*service{directory}, nil
}

// sssd answers for users; nil where it is not configured. It wants its
// configuration to be root's alone.
func (a *Agent) sssd() (*service, error) {
	path := a.Config.SSSDConfig
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	program, err := find("", "sssd")
	if err != nil {
		return nil, &Fault{ExitMissing, fmt.Errorf("SLURMLET_SSSD_CONFIG: there is %s, but %w", path, err)}
	}
	config := copies.Dir{
		From: filepath.Dir(path), To: filepath.Join(a.Config.RunDir, "sssd"), Mode: 0o600, UID: os.Geteuid(), GID: os.Getegid(),
		Wanted: func(name string) bool { return name == filepath.Base(path) },
	}
	if _, err := config.Sync(); err != nil {
		return nil, err
	}
	return a.newService(service{
		name: "sssd", answers: connects("unix", sssdSocket),
		command: process.Command{Path: program, Args: []string{"-i", "--logger=stderr", "-c", filepath.Join(config.To, filepath.Base(path))}, Env: servicePath},
	}, func(string) {})
}
