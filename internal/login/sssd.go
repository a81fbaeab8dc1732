package login

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// sssdSocket is where programs ask sssd for users (sss, in nsswitch.conf(5)).
const sssdSocket = "/var/lib/sss/pipes/nss"

// sssd answers for users; nil where it is not configured. It wants its
// configuration to be root's alone.
func (l *Login) sssd() (*service, error) {
	path := l.SSSDConfig
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	program, err := process.Find("sssd")
	if err != nil {
		return nil, &exitcode.Fault{Code: exitcode.Missing, Err: fmt.Errorf("SLURMLET_SSSD_CONFIG: there is %s, but %w", path, err)}
	}
	config := l.copyOf(filepath.Dir(path), "sssd", 0o600)
	config.Wanted = func(name string) bool { return name == filepath.Base(path) }
	if _, err := config.Sync(); err != nil {
		return nil, err
	}
	answers := func(ctx context.Context) error { return process.Answers(ctx, "unix", sssdSocket) }
	return l.newService("sssd", program,
		[]string{"-i", "--logger=stderr", "-c", filepath.Join(config.To, filepath.Base(path))}, answers, func(string) {})
}
