// Command figures prints figures of the tree's shape, for each package that has
// code of its own outside of tests:
//
//	go run ./.ci/figures [-places] [-sample 100 -seed 1] [package…]      (default ./...)
//
// -places prints where each of what it counts stands, as FILE:LINE. -sample prints
// doc comments in place of figures, drawn by the seed, for a reader to judge.
//
// An arrow leads from one file of a package to another whose declaration it
// uses: a type, a function, a method, a field, a variable or a constant. The
// program orders the files so that few arrows run back up, and counts those that
// still do. A pair is two files that use each other. A name has several meanings
// if a package declares it as a type and as a function, say, or as values of
// several types of this repository.
//
// Then come the largest structs, long lines, words that nobody greps for, and doc
// comments without a verb of their own.
//
// Between packages, an arrow runs up if docs/design/README.md has the importing
// package's wing below the imported one's in its table.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	var ask question
	flag.BoolVar(&ask.places, "places", false, "print the file and line of each finding")
	flag.IntVar(&ask.sample, "sample", 0, "print so many doc comments in place of figures")
	flag.Uint64Var(&ask.seed, "seed", 1, "draws the sample")
	flag.Parse()
	if ask.patterns = flag.Args(); len(ask.patterns) == 0 {
		ask.patterns = []string{"./..."}
	}
	if err := run(os.Stdout, ask); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// question is what the command line asks for.
type question struct {
	patterns []string
	places   bool
	sample   int
	seed     uint64
}

func run(out io.Writer, ask question) error {
	listed, err := list(ask.patterns)
	if err != nil {
		return err
	}
	exports := map[string]string{}
	for _, l := range listed {
		exports[l.ImportPath] = l.Export
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "package\tfiles\tlines\tfile: median, max\tfunctions\tlines: median, p90, max\tarrows\tup\tpairs\t"+
		"names with several meanings")
	var details strings.Builder
	var all shape
	var lines style
	ranks, up := rooms(), 0
	for _, l := range listed {
		if l.DepOnly || l.Standard || len(l.GoFiles) == 0 {
			continue
		}
		s, st, err := measure(l, exports)
		if err != nil {
			return err
		}
		lines.add(st)
		fmt.Fprintf(table, "%s\t%s\n", l.room(), s)
		for _, n := range s.names {
			fmt.Fprintf(&details, "  %s: %s\n", l.room(), n.text)
		}
		for _, to := range l.Imports {
			from, of := rowOf(ranks, l.room()), rowOf(ranks, strings.TrimPrefix(to, l.Module.Path+"/"))
			if from > 0 && of > 0 && of < from {
				up++
				fmt.Fprintf(&details, "  %s imports %s, which docs/design/README.md has above it\n", l.room(), to)
			}
		}
		all.add(s)
	}
	if ask.sample > 0 {
		return printSample(out, lines.docs, ask.sample, ask.seed)
	}
	fmt.Fprintf(table, "all\t%s\n", all)
	if err := table.Flush(); err != nil {
		return err
	}
	if err := lines.print(out); err != nil {
		return err
	}
	if _, err = fmt.Fprintf(out, "%d arrows run up between packages\n%s", up, details.String()); err != nil || !ask.places {
		return err
	}
	return printPlaces(out, slices.Concat(all.names, all.pairs, lines.long, lines.words, lines.fragments))
}

// listing is what `go list` says of a package.
type listing struct {
	ImportPath, Dir, Export string
	GoFiles, Imports        []string
	Standard, DepOnly       bool
	Module                  struct{ Path string }
}

// room is the package's directory in the repository.
func (l listing) room() string {
	return cmp.Or(strings.TrimPrefix(l.ImportPath, l.Module.Path+"/"), ".")
}

func list(patterns []string) ([]listing, error) {
	const fields = "-json=ImportPath,Dir,Export,GoFiles,Imports,Standard,DepOnly,Module"
	cmd := exec.Command("go", append([]string{"list", "-deps", "-export", fields}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list packages: %w", err)
	}
	var all []listing
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listing
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			slices.SortFunc(all, func(a, b listing) int { return cmp.Compare(a.ImportPath, b.ImportPath) })
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
}

// rooms are the rows of docs/design/README.md's table, from 1; several folders in one row share its rank.
func rooms() map[string]int {
	text, err := os.ReadFile("docs/design/README.md")
	if err != nil {
		return nil
	}
	ranks := map[string]int{}
	for i, row := range regexp.MustCompile(`(?m)^\| ([a-z][^|]*) \|`).FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			ranks[name] = i + 1
		}
	}
	return ranks
}

// rowOf is the row of the longest path that leads to a package, 0 for none.
func rowOf(ranks map[string]int, room string) int {
	for ; room != "." && ranks[room] == 0; room = path.Dir(room) {
	}
	return ranks[room]
}

// shape is what a package, or all of them together, look like.
type shape struct {
	files, functions []int // their lines
	arrows, up       int
	pairs            []place // of files
	names            []place // with several meanings, and which
}

func (s *shape) add(o shape) {
	s.files, s.functions = append(s.files, o.files...), append(s.functions, o.functions...)
	s.arrows, s.up = s.arrows+o.arrows, s.up+o.up
	s.pairs, s.names = append(s.pairs, o.pairs...), append(s.names, o.names...)
}

func (s shape) String() string {
	lines := 0
	for _, n := range s.files {
		lines += n
	}
	return fmt.Sprintf("%d\t%d\t%d, %d\t%d\t%d, %d, %d\t%d\t%d\t%d\t%d",
		len(s.files), lines, quantile(s.files, 50), quantile(s.files, 100),
		len(s.functions), quantile(s.functions, 50), quantile(s.functions, 90), quantile(s.functions, 100),
		s.arrows, s.up, len(s.pairs), len(s.names))
}

func quantile(values []int, percent int) int {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)*percent/100]
}

func measure(l listing, exports map[string]string) (shape, style, error) {
	var s shape
	set := token.NewFileSet()
	var files []*ast.File
	var texts []string
	for _, name := range l.GoFiles {
		text, err := os.ReadFile(filepath.Join(l.Dir, name))
		if err != nil {
			return s, style{}, err
		}
		f, err := parser.ParseFile(set, filepath.Join(l.Dir, name), text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return s, style{}, err
		}
		texts = append(texts, string(text))
		files = append(files, f)
		s.files = append(s.files, set.File(f.Pos()).LineCount())
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				s.functions = append(s.functions, set.Position(d.End()).Line-set.Position(d.Pos()).Line+1)
			}
		}
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(set, "gc", open)}
	pkg, err := config.Check(l.ImportPath, set, files, info)
	if err != nil {
		return s, style{}, err
	}
	uses := arrows(set, pkg, info)
	for _, from := range slices.Sorted(maps.Keys(uses)) {
		s.arrows += len(uses[from])
		for _, to := range slices.Sorted(maps.Keys(uses[from])) {
			if used, is := uses[to][from]; is && from < to {
				s.pairs = append(s.pairs, place{at: from, text: fmt.Sprintf("uses %s of %s, which uses %s",
					strings.Join(uses[from][to], ", "), filepath.Base(to), strings.Join(used, ", "))})
			}
		}
	}
	s.up = back(uses)
	s.names = meanings(l.room(), set, pkg, info)
	return s, styleOf(l.room(), set, pkg, files, texts), nil
}
