package parts

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// mirror is where this machine gets Debian itself from.
type mirror struct {
	uris    []string
	keyring string // the file with Debian's keys
}

// debianKeyrings are where the package debian-archive-keyring puts the keys.
var debianKeyrings = []string{
	"/usr/share/keyrings/debian-archive-keyring.gpg",
	"/usr/share/keyrings/debian-archive-keyring.pgp",
}

// machineMirror finds the mirror in the machine's own apt configuration.
func machineMirror() (mirror, error) {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return mirror{}, fmt.Errorf("cannot tell which Debian this is: %w", err)
	}
	all, err := readSources("/etc/apt")
	if err != nil {
		return mirror{}, err
	}
	m, err := findMirror(all, codename(string(text)))
	if err != nil {
		return mirror{}, err
	}
	if m.keyring == "" {
		i := slices.IndexFunc(debianKeyrings, exists)
		if i < 0 {
			return mirror{}, errors.New("cannot find Debian's keys: debian-archive-keyring is not installed")
		}
		m.keyring = debianKeyrings[i]
	}
	return m, nil
}

// codename takes VERSION_CODENAME out of os-release(5).
func codename(osRelease string) string {
	for line := range strings.Lines(osRelease) {
		if v, ok := strings.CutPrefix(line, "VERSION_CODENAME="); ok {
			return strings.Trim(strings.TrimSpace(v), `"'`)
		}
	}
	return ""
}

// symbolic are the other names that a source can give to a release.
var symbolic = []string{"stable", "oldstable", "oldoldstable", "testing", "unstable", "sid"}

// findMirror takes the first source of the release itself: its security
// archive and foreign repositories have none of the other releases.
func findMirror(all []source, codename string) (mirror, error) {
	for _, s := range all {
		ours := func(suite string) bool {
			return suite != "" && (suite == codename || slices.Contains(symbolic, suite))
		}
		if slices.Contains(s.types, "deb") && slices.Contains(s.components, "main") &&
			slices.ContainsFunc(s.suites, ours) && len(s.uris) > 0 {
			return mirror{uris: s.uris, keyring: s.signedBy}, nil
		}
	}
	return mirror{}, fmt.Errorf("cannot find a Debian mirror in the apt sources of this machine (release %q)", codename)
}

// lines are the sources.list(5) lines for another suite from the same mirror.
func (m mirror) lines(suite string) []string {
	all := make([]string, 0, len(m.uris))
	for _, uri := range m.uris {
		all = append(all, fmt.Sprintf("deb [signed-by=%s] %s %s main", m.keyring, uri, suite))
	}
	return all
}
