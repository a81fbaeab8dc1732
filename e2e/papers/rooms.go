package papers

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// architecture is the paper whose table has the rooms.
const architecture = "docs/design/README.md"

// module is the import path of the repository's root.
const module = "github.com/slurmlet/slurmlet"

var row = regexp.MustCompile(`^\| ((?:agent|cgroup|charts|cmd|controller|e2e|images|internal|kubectl-slurm|slurmconf)[\w/, .-]*) \|`)

// Rooms are the packages that the table of a paper names, with their rows from 1.
// A row may name several.
func (p Paper) Rooms() map[string]int {
	rooms := map[string]int{}
	n := 0
	for _, line := range p.Lines {
		if m := row.FindStringSubmatch(line); m != nil {
			n++
			for name := range strings.SplitSeq(m[1], ", ") {
				rooms[name] = n
			}
		}
	}
	return rooms
}

// Misplaced are the packages below root that are in none of the rooms, the imports that lead from a row
// to one above it, and those that lead into another place. A package is in the row of the longest path that leads to it.
// Only code of the product has a direction: e2e may import all of it.
func Misplaced(root string, rooms map[string]int) ([]string, error) {
	var faults []string
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bin", "testdata"}, d.Name())):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		room := path.Dir(name)
		if rowOf(rooms, room) == 0 {
			if fault := architecture + " does not name " + room; !slices.Contains(faults, fault) {
				faults = append(faults, fault)
			}
			return nil
		}
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "e2e/") {
			return nil
		}
		wrong, err := wrongImports(root, name, rooms)
		faults = append(faults, wrong...)
		return err
	})
	return faults, err
}

// places are the wings that are named after one place, and who may import them beside themselves: agent joins all of
// them, and the command line and the page run in containers of these places, too.
var places = map[string][]string{
	"internal/login":     {"agent"},
	"internal/slurmctld": {"agent", "cmd/slurmlet", "internal/page"},
	"internal/slurmd":    {"agent", "cmd/slurmlet"},
	"internal/slurmdbd":  {"agent"},
}

// isOutOfPlace says whether a package imports one that runs in another place.
func isOutOfPlace(room, imported string) bool {
	for place, joins := range places {
		if !within(imported, place) {
			continue
		}
		return !within(room, place) && !slices.ContainsFunc(joins, func(join string) bool { return within(room, join) })
	}
	return false
}

// within says whether a package is a wing or in it.
func within(room, wing string) bool { return room == wing || strings.HasPrefix(room, wing+"/") }

// rowOf is the row of a package, 0 for none.
func rowOf(rooms map[string]int, room string) int {
	for ; room != "."; room = path.Dir(room) {
		if row := rooms[room]; row > 0 {
			return row
		}
	}
	return 0
}

// wrongImports are the imports of a file that lead to a row above its package's, or into another place.
func wrongImports(root, name string, rooms map[string]int) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return nil, err
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var faults []string
	for _, one := range f.Imports {
		imported, err := strconv.Unquote(one.Path.Value)
		if err != nil {
			return nil, err
		}
		to, ours := strings.CutPrefix(imported, module+"/")
		if ours && isOutOfPlace(path.Dir(name), to) {
			faults = append(faults, fmt.Sprintf("%s imports %s, which runs in another place", name, to))
		}
		if ours && rowOf(rooms, to) < rowOf(rooms, path.Dir(name)) {
			faults = append(faults, fmt.Sprintf("%s imports %s, which %s has above %s", name, to, architecture, path.Dir(name)))
		}
	}
	return faults, nil
}
