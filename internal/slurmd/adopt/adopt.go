// Package adopt lets those in by ssh who have a job on the node, and nobody else. pam_slurm_adopt(8) puts what they start
// into the job, so that the job's limits hold for it and the job's end ends it. It needs PrologFlags=Contain
// (slurm.conf(5)), without which it finds no job.
//
// The module's own defaults are made for nodes that slurm.conf names. A dynamic node is in no slurm.conf, so the module
// cannot tell which node it is on, calls that a failure, and lets everybody in (action_generic_failure=ignore). So it does
// where the PAM service is not sshd, unless service= names it.
package adopt

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

const (
	// service is the PAM service of this sshd, a file in services (pam.conf(5)).
	service  = "slurmlet-node"
	services = "etc/pam.d"
	module   = "pam_slurm_adopt.so"
)

// moduleDirs are where libpam looks for modules: Debian's, Fedora's, and others' (patterns below the root).
var moduleDirs = []string{
	"lib/*/security", "usr/lib/*/security", "lib64/security", "usr/lib64/security", "lib/security", "usr/lib/security",
}

// common are files with a distribution's own rules for accounts and sessions, Debian's first; {account} or {session} is
// put into the name.
var common = []string{"common-{}", "password-auth", "system-auth"}

// Options are those of sshd that let only users of the node's jobs in. It writes their PAM service, below root. Root has
// no jobs, and comes in by "kubectl exec".
func Options(root, node string) ([]string, error) {
	if !installed(root) {
		return nil, &exitcode.Fault{
			Code: exitcode.Missing,
			Err:  fmt.Errorf("SLURMLET_SSH=yes: cannot find %s of PAM: install libpam-slurm-adopt, or slurm-pam_slurm", module),
		}
	}
	path := filepath.Join(root, services, service)
	if err := os.WriteFile(path, []byte(rules(root, node)), 0o644); err != nil {
		return nil, fmt.Errorf("SLURMLET_SSH=yes: cannot write the PAM service of sshd: %w", err)
	}
	return []string{
		"UsePAM yes", "PAMServiceName " + service, "PasswordAuthentication no", "KbdInteractiveAuthentication no", "PermitRootLogin no",
	}, nil
}

func installed(root string) bool {
	for _, dir := range moduleDirs {
		if found, _ := filepath.Glob(filepath.Join(root, dir, module)); len(found) > 0 { // the pattern is right
			return true
		}
	}
	return false
}

// rules are the PAM service. A distribution's rules are a substack, because a "sufficient" of theirs would end the
// including stack before the module is asked (pam.conf(5)): Debian's has one for each user of /etc/passwd.
func rules(root, node string) string {
	lines := []string{
		"# slurmlet writes this file at each start. sshd lets those in who have a job on this node, by their keys.",
		"auth required pam_deny.so",
		"account required pam_nologin.so",
	}
	lines = append(lines, distribution(root, "account")...)
	lines = append(lines,
		"account required "+module+" service="+service+" nodename="+node+
			" action_no_jobs=deny action_unknown=newest action_adopt_failure=deny action_generic_failure=deny")
	lines = append(lines, distribution(root, "session")...)
	lines = append(lines, "session required pam_limits.so", "session required pam_env.so")
	return strings.Join(lines, "\n") + "\n"
}

func distribution(root, kind string) []string {
	for _, name := range common {
		name = strings.ReplaceAll(name, "{}", kind)
		if _, err := os.Stat(filepath.Join(root, services, name)); err == nil {
			return []string{kind + " substack " + name}
		}
	}
	return []string{kind + " required pam_unix.so"}
}
