package parts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// release is a Debian suite with a Slurm in it.
type release struct {
	suite string
	// moving is true when its lists may be older than they say they are
	// good for, as those of a moving suite are on mirrors that rarely update.
	moving bool
	// sssd is the suite from which sssd comes where the release's own has none.
	sssd string
}

var releases = map[string]release{
	"24.11": {suite: "trixie"},
	"26.05": {suite: "forky", moving: true, sssd: "sid"},
}

// Newest is the version that is taken where none is named, as by the charts.
func Newest() string { return slices.Max(Versions()) }

// rootPackages are what a container of any role needs, slurmdbd's database, and a directory.
// Debian packages most of Slurm's plugins (auth/slurm, cgroup/v2, task/affinity)
// with the daemons.
var rootPackages = []string{
	"slurmctld", "slurmd", "slurm-client", "slurmdbd", "slurmrestd", "sackd", "slurm-wlm-jwt-plugin",
	"runc", "iproute2", "procps", "strace", "openssh-server", "openssh-client", "libpam-slurm-adopt", "curl",
	"mariadb-server-core", "mariadb-client-core", "sssd-ldap", "libnss-sss", "libpam-sss", "libnss-extrausers", "slapd",
}

// sssdPin has apt take from another suite only what the release itself lacks (apt_preferences(5)). It is mmdebstrap's
// hook, with the root's directory as $1. images/Dockerfile has the same pin.
const sssdPin = `printf '%%s\n' 'Package: *' 'Pin: release n=%s' 'Pin-Priority: 100' >"$1/etc/apt/preferences.d/sssd"`

// Debian's own uid and gid of the user slurm, the same in every release.
const slurmID = 64030

// slim has dpkg leave out what nobody reads here. It is mmdebstrap's hook, with the root's directory as $1, before dpkg
// runs there. mmdebstrap's own way (--dpkgopt=path-exclude=) has a program in Python read the files of each package.
const slim = `set -eu
cd "$1"
for dir in doc info lintian locale man; do
	rm -rf usr/share/$dir/*
	echo "path-exclude=/usr/share/$dir/*"
done >etc/dpkg/dpkg.cfg.d/slim
`

// finish is run with the root's directory as $1, after the packages are there.
// alice is who jobs run as.
const finish = `set -eu
chroot "$1" useradd --create-home --uid 1000 --shell /bin/bash alice
mkdir -p "$1/etc/slurm" "$1/var/spool/slurmctld" "$1/var/spool/slurmd" "$1/var/log/slurm"
chown 64030:64030 "$1/etc/slurm" "$1/var/spool/slurmctld" "$1/var/log/slurm"
rm -f "$1"/etc/ssh/ssh_host_*
sed -i -E 's/^(passwd|group|shadow|gshadow):( +)files/& extrausers/' "$1/etc/nsswitch.conf"
chroot "$1" pam-auth-update --enable mkhomedir
rm -rf "$1/etc/ldap/slapd.d" "$1/var/lib/ldap"
`

// Root returns the directory of the Debian root file system with Slurm of that
// version, building it when the cache has none: less than a minute. It takes
// root's rights to build. The user slurm has uid and gid 64030, and alice 1000.
func Root(ctx context.Context, slurm string, p Progress) (string, error) {
	r, ok := releases[slurm]
	if !ok {
		return "", fmt.Errorf("cannot make a root file system with Slurm %q: there are %s", slurm, strings.Join(Versions(), ", "))
	}
	inputs := slices.Concat([]string{runtime.GOARCH, r.suite, finish}, rootPackages, []string{slim})
	if r.sssd != "" {
		inputs = append(inputs, r.sssd, sssdPin)
	}
	e := entry{name: "root-" + slurm, key: keyOf(inputs...)}
	dir, err := e.obtain(ctx, p, func(dir string) error { return buildRoot(ctx, dir, slurm, r, p) })
	return filepath.Join(dir, "root"), err
}

// buildRoot leaves the file system in dir/root and its list of packages in dir/about.
func buildRoot(ctx context.Context, dir, slurm string, r release, p Progress) error {
	started := time.Now()
	m, err := rootsMirror(ctx, p)
	if err != nil {
		return err
	}
	root := filepath.Join(dir, "root")
	p("root %s: installs %d packages and what they need from %s", slurm, len(rootPackages), r.suite)
	s := watch(p, "root "+slurm+": did %d of about %d steps of packages", rootSteps, "Unpacking ", "Setting up ")
	err = command{line: s.line}.run(ctx, "mmdebstrap", bootstrapArgs(r, rootPackages, root, m)...)
	s.stop()
	if err != nil {
		return fmt.Errorf("cannot install: %w", err)
	}
	if err := (command{}).run(ctx, "sh", "-c", finish, "sh", root); err != nil {
		return fmt.Errorf("cannot finish the root file system: %w", err)
	}
	if err := checkRoot(root); err != nil {
		return err
	}
	versions, err := (command{}).output(ctx, "dpkg-query", "--admindir="+filepath.Join(root, "var/lib/dpkg"),
		"--show", "--showformat=${Package} ${Version}\n")
	if err != nil {
		return fmt.Errorf("cannot list the packages: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "about"), []byte(versions), 0o644); err != nil {
		return fmt.Errorf("cannot note the packages: %w", err)
	}
	got := packageVersion(versions, "slurmd")
	if !strings.HasPrefix(got, slurm) {
		p("root %s: %s has moved on, this is Slurm %s", slurm, r.suite, got)
	}
	p("root %s: done, Slurm %s (%s)", slurm, got, since(started))
	return nil
}

// rootSteps is about how many times a package is unpacked or set up, for the progress.
const rootSteps = 2 * 160

func bootstrapArgs(r release, packages []string, root string, m mirror) []string {
	args := []string{
		"--mode=root", "--variant=minbase", "--format=directory", "--verbose",
		"--include=" + strings.Join(packages, ","), "--extract-hook=" + slim,
	}
	if r.moving {
		args = append(args, `--aptopt=Acquire::Check-Valid-Until "false"`)
	}
	lines := m.lines(r.suite)
	if r.sssd != "" {
		args = append(args, "--setup-hook="+fmt.Sprintf(sssdPin, r.sssd))
		lines = append(lines, m.lines(r.sssd)...)
	}
	return append(append(args, r.suite, root), lines...)
}

// checkRoot makes sure of what everything else relies on.
func checkRoot(root string) error {
	for _, plugin := range []string{"auth_slurm.so", "auth_jwt.so", "accounting_storage_mysql.so", "cgroup_v2.so", "task_affinity.so", "task_cgroup.so"} {
		found, err := filepath.Glob(filepath.Join(root, "usr/lib/*/slurm*", plugin))
		if err != nil || len(found) == 0 {
			return fmt.Errorf("cannot use this Slurm: it has no %s", plugin)
		}
	}
	for _, program := range []string{"usr/sbin/sssd", "usr/bin/sss_ssh_authorizedkeys"} {
		if !exists(filepath.Join(root, program)) {
			return fmt.Errorf("cannot use this root file system: it has no %s", program)
		}
	}
	users, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil {
		return fmt.Errorf("cannot read the users: %w", err)
	}
	if want := fmt.Sprintf("slurm:x:%d:%d:", slurmID, slurmID); !strings.Contains(string(users), want) {
		return fmt.Errorf("cannot use this root file system: its user slurm is not %d", slurmID)
	}
	return nil
}

// packageVersion finds name in "package version" lines.
func packageVersion(list, name string) string {
	for line := range strings.Lines(list) {
		if p, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok && p == name {
			return v
		}
	}
	return ""
}
