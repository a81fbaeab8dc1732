// Keytable writes slurmconf/keys/keys.txt: the keys that each version of Slurm
// reads from each of its configuration files, and their types.
//
//	keytable DIRECTORY > keys.txt
//
// The directory has one of Slurm's source trees for each version: 24.11/src and
// so on. In a clone of Slurm's repository:
//
//	for v in 24.11 25.05 25.11 26.05; do
//		mkdir -p $DIRECTORY/$v && git archive slurm-$v src | tar x -C $DIRECTORY/$v
//	done
//
// The keys are those of the tables of s_p_options_t, which is what Slurm's parser
// is given; the manual pages lack some, and have others that are no more.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: keytable DIRECTORY > keys.txt")
		os.Exit(2)
	}
	if err := run(os.DirFS(os.Args[1]), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "keytable:", err)
		os.Exit(1)
	}
}

func run(sources fs.FS, out io.Writer) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "# Made by slurmconf/internal/keytable from Slurm's tables of s_p_options_t; see there.")
	for _, t := range tables {
		if err := writeTable(w, sources, t); err != nil {
			return fmt.Errorf("cannot make the keys of %s: %v", t.file, err)
		}
	}
	if err := writePlugins(w, sources); err != nil {
		return err
	}
	return w.Flush()
}

// writeTable writes a heading, and a line for each key and type.
func writeTable(w io.Writer, sources fs.FS, t table) error {
	versions := map[string][]string{} // of a key and what it is
	for _, version := range keys.Versions {
		found, err := t.read(sources, version)
		if err != nil {
			return err
		}
		for key := range found {
			versions[key] = append(versions[key], version)
		}
	}
	fmt.Fprintln(w, strings.TrimSpace(string(t.file)+" "+t.record))
	for _, key := range slices.SortedFunc(maps.Keys(versions), ignoringCase) {
		fmt.Fprintln(w, "\t"+strings.TrimSpace(key+" "+span(versions[key])))
	}
	return nil
}

func ignoringCase(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }

// span is empty for all versions, else the first and the last one.
func span(versions []string) string {
	if len(versions) == len(keys.Versions) {
		return ""
	}
	return versions[0] + "-" + versions[len(versions)-1]
}

// read is the keys of one version with their types, "Port uint16".
func (t table) read(sources fs.FS, version string) (map[string]bool, error) {
	found := map[string]bool{}
	for _, source := range t.sources {
		name, array, _ := strings.Cut(source, ":")
		text, err := fs.ReadFile(sources, path.Join(version, "src", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // A plugin that this version has not, or has elsewhere.
		}
		if err != nil {
			return nil, err
		}
		for _, key := range keysOf(string(text), array) {
			found[key] = true
		}
	}
	return found, nil
}

var (
	comment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	entry   = regexp.MustCompile(`"(\w+)"\s*,\s*(?:\.type\s*=\s*)?S_P_(\w+)(\s*,\s*_defunct_option)?`)
)

// keysOf is the entries of the C array of that name.
func keysOf(text, array string) (all []string) {
	_, text, found := strings.Cut(comment.ReplaceAllString(text, ""), " "+array+"[] = {")
	if !found {
		return nil
	}
	text, _, _ = strings.Cut(text, "};")
	for _, m := range entry.FindAllStringSubmatch(text, -1) {
		what := strings.ToLower(m[2])
		if m[3] != "" {
			what = "defunct"
		}
		all = append(all, m[1]+" "+what)
	}
	return all
}
