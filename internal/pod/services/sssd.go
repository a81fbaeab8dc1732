package services

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/pod/copies"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

const sssd = "sssd"

// sssdSocket is where programs ask sssd for users (sss, in nsswitch.conf(5)).
const sssdSocket = "/var/lib/sss/pipes/nss"

// AddSSSD adds sssd, which answers for users, where its configuration is there. It wants that to be root's alone, so it
// gets a copy in the agent's own directory. anew has it ask the directory at each question of PAM.
func (s *Services) AddSSSD(path, runDir string, anew bool) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	program, err := process.Find(sssd)
	if err != nil {
		return &exitcode.Fault{Code: exitcode.Missing, Err: fmt.Errorf("SLURMLET_SSSD_CONFIG: there is %s, but %w", path, err)}
	}
	config := copies.ForAgent(filepath.Dir(path), filepath.Join(runDir, sssd), 0o600)
	config.Wanted = func(name string) bool { return name == filepath.Base(path) }
	if _, err := config.Sync(); err != nil {
		return err
	}
	file := filepath.Join(config.To, filepath.Base(path))
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(complete(string(text), filepath.Join(filepath.Dir(path), authorities), anew)), 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot copy %s: %w", path, err)
	}
	answers := func(ctx context.Context) error { return process.Answers(ctx, "unix", sssdSocket) }
	_, err = s.Add(sssd, program,
		[]string{"-i", "--logger=stderr", "-c", file}, answers, func(string) {})
	return err
}

// initgroups says when sssd asks the directory before it answers PAM. Its default, no_session, takes what it knows of those who
// have processes, for 90 minutes: somebody who is logged in and is locked would be let in again (sssd.conf(5)).
const initgroups = "pam_initgroups_scheme"

const (
	// authorities is a file beside sssd.conf with the certificates by which sssd knows the directory's (the chart's sssd.ca).
	authorities = "ca.crt"
	// trusted names such a file, in sections of domains (sssd-ldap(5)).
	trusted = "ldap_tls_cacert"
)

// complete adds to a configuration what it does not say itself.
func complete(text, ca string, anew bool) string {
	if anew {
		text = askAnew(text)
	}
	if _, err := os.Stat(ca); err == nil {
		text = trust(text, ca)
	}
	return text
}

// trust has the domains know their directory by the certificates in ca. The chart does so with sed where sssd is a
// container (slurm.sssdContainer).
func trust(text, ca string) string {
	if strings.Contains(text, trusted) {
		return text
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, line)
		name, is := strings.CutPrefix(strings.TrimSpace(line), "[domain/")
		if is && strings.IndexByte(name, ']') == len(name)-1 && !strings.Contains(name, "/") { // a domain, no trusted one of a domain's
			lines = append(lines, trusted+" = "+ca)
		}
	}
	return strings.Join(lines, "\n")
}

// askAnew adds initgroups to a configuration that does not have it.
func askAnew(text string) string {
	if strings.Contains(text, initgroups) {
		return text
	}
	const section, value = "[pam]", initgroups + " = always"
	var lines []string
	found := false
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, line)
		if strings.TrimSpace(line) == section && !found {
			lines, found = append(lines, value), true
		}
	}
	if !found {
		lines = append(lines, section, value, "")
	}
	return strings.Join(lines, "\n")
}
