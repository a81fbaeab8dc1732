// Command figures prints figures of the tree's shape, for each package that has
// code of its own outside of tests:
//
//	go run ./.ci/figures [package…]      (default ./...)
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
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, patterns []string) error {
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	listed, err := list(patterns)
	if err != nil {
		return err
	}
	exports := map[string]string{}
	for _, l := range listed {
		exports[l.ImportPath] = l.Export
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "package\tfiles\tlines\tfile: median, max\tfunctions\tlines: median, p90, max\tarrows\tup\tpairs\tnames with several meanings")
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
			fmt.Fprintf(&details, "  %s: %s\n", l.room(), n)
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
	fmt.Fprintf(table, "all\t%s\n", all)
	if err := table.Flush(); err != nil {
		return err
	}
	if err := lines.print(out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d arrows run up between packages\n%s", up, details.String())
	return err
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
	cmd := exec.Command("go", append([]string{"list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,Imports,Standard,DepOnly,Module"}, patterns...)...)
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
	files, functions  []int // their lines
	arrows, up, pairs int
	names             []string // with several meanings, and which
}

func (s *shape) add(o shape) {
	s.files, s.functions, s.names = append(s.files, o.files...), append(s.functions, o.functions...), append(s.names, o.names...)
	s.arrows, s.up, s.pairs = s.arrows+o.arrows, s.up+o.up, s.pairs+o.pairs
}

func (s shape) String() string {
	lines := 0
	for _, n := range s.files {
		lines += n
	}
	return fmt.Sprintf("%d\t%d\t%d, %d\t%d\t%d, %d, %d\t%d\t%d\t%d\t%d", len(s.files), lines, quantile(s.files, 50), quantile(s.files, 100),
		len(s.functions), quantile(s.functions, 50), quantile(s.functions, 90), quantile(s.functions, 100), s.arrows, s.up, s.pairs, len(s.names))
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
	config := types.Config{Importer: importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	pkg, err := config.Check(l.ImportPath, set, files, info)
	if err != nil {
		return s, style{}, err
	}
	uses := arrows(set, pkg, info)
	for from, tos := range uses {
		s.arrows += len(tos)
		for to := range tos {
			if uses[to][from] && from < to {
				s.pairs++
			}
		}
	}
	s.up = back(uses)
	s.names = meanings(pkg, info)
	return s, styleOf(l.room(), pkg, files, texts), nil
}

// arrows are the files that each file uses.
func arrows(set *token.FileSet, pkg *types.Package, info *types.Info) map[string]map[string]bool {
	uses := map[string]map[string]bool{}
	for ident, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() || !declared(pkg, object) {
			continue
		}
		from, to := set.Position(ident.Pos()).Filename, set.Position(object.Pos()).Filename
		if from == to {
			continue
		}
		if uses[from] == nil {
			uses[from] = map[string]bool{}
		}
		uses[from][to] = true
	}
	return uses
}

// declared says whether an object is the package's, and not one inside of a function.
func declared(pkg *types.Package, object types.Object) bool {
	if object.Parent() == pkg.Scope() {
		return true
	}
	switch object := object.(type) {
	case *types.Var:
		return object.IsField()
	case *types.Func:
		return true // a method
	}
	return false
}

// back is how many arrows run up when the files are in a good order: first a greedy
// one (Eades, Lin and Smyth), then each file moves to where it costs least.
func back(uses map[string]map[string]bool) int {
	nodes := map[string]bool{}
	for from, tos := range uses {
		nodes[from] = true
		for to := range tos {
			nodes[to] = true
		}
	}
	order := slices.Sorted(maps.Keys(nodes))
	slices.SortStableFunc(order, func(a, b string) int { return balance(uses, order, b) - balance(uses, order, a) })
	for best := count(uses, order); ; {
		for _, node := range slices.Clone(order) {
			rest := slices.DeleteFunc(slices.Clone(order), func(n string) bool { return n == node })
			at, cost, least := 0, 0, 0
			for i, other := range rest { // the cost of being behind other, against being before it
				if uses[node][other] {
					cost++
				}
				if uses[other][node] {
					cost--
				}
				if cost < least {
					at, least = i+1, cost
				}
			}
			order = slices.Insert(rest, at, node)
		}
		now := count(uses, order)
		if now >= best {
			return best
		}
		best = now
	}
}

// balance is how many files a file uses, less how many use it.
func balance(uses map[string]map[string]bool, all []string, node string) int {
	n := len(uses[node])
	for _, other := range all {
		if uses[other][node] {
			n--
		}
	}
	return n
}

func count(uses map[string]map[string]bool, order []string) int {
	n := 0
	for i, later := range order {
		for _, earlier := range order[:i] {
			if uses[later][earlier] {
				n++
			}
		}
	}
	return n
}

// module begins the import paths of this repository.
const module = "github.com/slurmlet/slurmlet/"

// meanings are the names that a package gives to different things, and to which.
func meanings(pkg *types.Package, info *types.Info) []string {
	found := map[string]map[string]bool{}
	for _, object := range info.Defs {
		if object == nil || object.Name() == "_" || !declared(pkg, object) {
			continue
		}
		name := strings.ToLower(object.Name())
		if found[name] == nil {
			found[name] = map[string]bool{}
		}
		if m := meaning(object, name); m != "" {
			found[name][m] = true
		}
	}
	var several []string
	for name, all := range found {
		if len(all) > 1 {
			several = append(several, name+" is "+strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
	}
	slices.Sort(several)
	return several
}

// meaning is what kind of thing an object is. A value or a function that has its
// type's name means that type. A value of another module's type, or of a basic
// one, has no meaning of its own: a number may be called what it counts.
func meaning(object types.Object, name string) string {
	switch object := object.(type) {
	case *types.TypeName:
		return "a type"
	case *types.Func:
		results := object.Type().(*types.Signature).Results()
		if results.Len() > 0 && of(results.At(0).Type(), name) {
			return "a type"
		}
		return "a function"
	case *types.Const:
		return "a constant"
	}
	if of(object.Type(), name) {
		return "a type"
	}
	if _, function := object.Type().Underlying().(*types.Signature); function {
		return "a function"
	}
	named, ok := element(object.Type()).(*types.Named)
	if !ok || named.Obj().Pkg() == nil || !strings.HasPrefix(named.Obj().Pkg().Path(), module) {
		return ""
	}
	return "a value of type " + types.TypeString(element(object.Type()), func(p *types.Package) string { return p.Name() })
}

// of says whether a type, or what it holds, has this name, in the singular or the
// plural; MainStatus is what the status says of main.
func of(t types.Type, name string) bool {
	named, ok := element(t).(interface{ Obj() *types.TypeName })
	if !ok {
		return false
	}
	whole := strings.ToLower(named.Obj().Name())
	called := strings.TrimSuffix(whole, "status")
	return name == whole || name == called || name == called+"s"
}

// element is what a pointer, slice or map leads to.
func element(t types.Type) types.Type {
	for {
		switch u := t.(type) {
		case *types.Pointer:
			t = u.Elem()
		case *types.Slice:
			t = u.Elem()
		case *types.Map:
			t = u.Elem()
		default:
			return t
		}
	}
}
