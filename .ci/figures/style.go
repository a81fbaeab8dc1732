package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// style is what a reader meets line by line.
type style struct {
	structs []structure
	// long has lines of over 140 columns, words each told, tells or untold, docs all doc comments, and fragments
	// those of them without a verb that the eye finds at once.
	long, words, docs, fragments []place
}

// structure is a struct type with its fields, its methods, and its values: fields, those of structs inside it too.
type structure struct {
	name                    string
	fields, methods, values int
}

// mostStructs is how many structs are printed.
const mostStructs = 12

var (
	told = regexp.MustCompile(`(?i)\b(un)?tol?d\b|\btells?\b|[a-z](Told|Tells?)\b|\b(told|tells?)[A-Z]`)
	// fragment is "name is how often." without more.
	fragment = regexp.MustCompile(`^\w+(,? (and )?\w+)* (is|are) (how|when|what|where|why|who|that of|those of)\b[^,:;]{0,24}\.$`)
)

func (s *style) add(o style) {
	s.structs = append(s.structs, o.structs...)
	s.long, s.words = append(s.long, o.long...), append(s.words, o.words...)
	s.docs, s.fragments = append(s.docs, o.docs...), append(s.fragments, o.fragments...)
}

func (s *style) print(out io.Writer) error {
	slices.SortStableFunc(s.structs, func(a, b structure) int { return b.values - a.values })
	text := &strings.Builder{}
	fmt.Fprintln(text, "\nstructs with the most values: fields, methods, values with those of the package's structs inside")
	for _, one := range s.structs[:min(len(s.structs), mostStructs)] {
		fmt.Fprintf(text, "  %s: %d, %d, %d\n", one.name, one.fields, one.methods, one.values)
	}
	fmt.Fprintf(text, "%d lines have over 140 columns; told, tells and untold stand %d times; %d of %d doc comments are fragments\n\n",
		len(s.long), len(s.words), len(s.fragments), len(s.docs))
	_, err := io.WriteString(out, text.String())
	return err
}

// styleOf reads a package's files.
func styleOf(room string, set *token.FileSet, pkg *types.Package, files []*ast.File, texts []string) style {
	var s style
	for i, text := range texts {
		name, n := set.Position(files[i].Pos()).Filename, 0
		for line := range strings.Lines(text) {
			n++
			at := fmt.Sprintf("%s:%d", name, n)
			if width := columns(line); width > 140 {
				s.long = append(s.long, place{at: at, text: fmt.Sprintf("%d columns", width)})
			}
			for _, word := range told.FindAllString(line, -1) {
				s.words = append(s.words, place{at: at, text: word})
			}
		}
	}
	for _, name := range pkg.Scope().Names() {
		object, is := pkg.Scope().Lookup(name).(*types.TypeName)
		if !is {
			continue
		}
		named, is := object.Type().(*types.Named)
		if !is {
			continue
		}
		if body, is := named.Underlying().(*types.Struct); is {
			s.structs = append(s.structs, structure{room + "." + name, body.NumFields(), named.NumMethods(), values(pkg, body)})
		}
	}
	for _, f := range files {
		for _, doc := range docs(set, f) {
			s.docs = append(s.docs, doc)
			if fragment.MatchString(doc.text) {
				s.fragments = append(s.fragments, doc)
			}
		}
	}
	return s
}

func columns(line string) int {
	line = strings.TrimRight(line, "\n")
	return utf8.RuneCountInString(line) + 3*(len(line)-len(strings.TrimLeft(line, "\t")))
}

// values counts a struct's fields, and for each that is a struct of the same package, that one's.
func values(pkg *types.Package, body *types.Struct) int {
	n := 0
	for field := range body.Fields() {
		named, is := field.Type().(*types.Named)
		inner, isStruct := field.Type().Underlying().(*types.Struct)
		if is && isStruct && named.Obj().Pkg() == pkg {
			n += values(pkg, inner)
			continue
		}
		n++
	}
	return n
}

// docs are the doc comments of a file's declarations and fields, each on one line.
func docs(set *token.FileSet, f *ast.File) (all []place) {
	add := func(group *ast.CommentGroup) {
		if group != nil {
			at := set.Position(group.Pos())
			all = append(all, place{at: fmt.Sprintf("%s:%d", at.Filename, at.Line), text: strings.Join(strings.Fields(group.Text()), " ")})
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Doc)
			return false
		case *ast.GenDecl:
			add(n.Doc)
		case *ast.TypeSpec:
			add(n.Doc)
		case *ast.ValueSpec:
			add(n.Doc)
		case *ast.Field:
			add(n.Doc)
		}
		return true
	})
	return all
}
