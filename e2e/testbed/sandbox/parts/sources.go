package parts

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// source is one entry of the machine's apt configuration, sources.list(5).
type source struct {
	types      []string // deb, deb-src
	uris       []string
	suites     []string
	components []string
	signedBy   string // a keyring file, or empty
}

// readSources reads the apt sources under etc ("/etc/apt"), in apt's order.
func readSources(etc string) ([]source, error) {
	paths := []string{filepath.Join(etc, "sources.list")}
	for _, pattern := range []string{"*.list", "*.sources"} {
		more, err := filepath.Glob(filepath.Join(etc, "sources.list.d", pattern))
		if err != nil {
			return nil, fmt.Errorf("cannot list the apt sources: %w", err)
		}
		paths = append(paths, more...)
	}
	var all []source
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // sources.list has become optional
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the apt sources: %w", err)
		}
		if strings.HasSuffix(path, ".sources") {
			all = append(all, parseStanzas(string(text))...)
		} else {
			all = append(all, parseLines(string(text))...)
		}
	}
	return all, nil
}

// parseLines parses the one-line format: deb [options] uri suite component…
func parseLines(text string) []source {
	var all []source
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		signedBy := ""
		if before, rest, ok := strings.Cut(line, "["); ok {
			options, after, _ := strings.Cut(rest, "]")
			for o := range strings.FieldsSeq(options) {
				if v, ok := strings.CutPrefix(o, "signed-by="); ok {
					signedBy = v
				}
			}
			line = before + after
		}
		f := strings.Fields(line)
		if len(f) < 3 || (f[0] != "deb" && f[0] != "deb-src") {
			continue
		}
		all = append(all, source{
			types: f[:1], uris: f[1:2], suites: f[2:3], components: f[3:], signedBy: signedBy,
		})
	}
	return all
}

// parseStanzas parses the deb822 format: fields in stanzas that empty lines part.
func parseStanzas(text string) []source {
	var all []source
	fields := map[string]string{}
	end := func() {
		if len(fields) > 0 && !slices.Contains([]string{"no", "false", "0"}, fields["enabled"]) {
			all = append(all, stanza(fields))
		}
		fields = map[string]string{}
	}
	last := ""
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "#"): // also in the middle of a stanza
		case strings.TrimSpace(line) == "":
			end()
		case line[0] == ' ' || line[0] == '\t':
			fields[last] += "\n" + strings.TrimSpace(line)
		default:
			name, value, _ := strings.Cut(line, ":")
			last = strings.ToLower(strings.TrimSpace(name))
			fields[last] = strings.TrimSpace(value)
		}
	}
	end()
	return all
}

func stanza(fields map[string]string) source {
	s := source{
		types:      strings.Fields(fields["types"]),
		uris:       strings.Fields(fields["uris"]),
		suites:     strings.Fields(fields["suites"]),
		components: strings.Fields(fields["components"]),
	}
	// The field may also hold the key itself, which only that stanza can use.
	if strings.HasPrefix(fields["signed-by"], "/") {
		s.signedBy = fields["signed-by"]
	}
	return s
}
