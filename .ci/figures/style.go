package main

import (
	"fmt"
	"go/ast"
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
	// long counts lines of over 140 columns, words those with told, tells or untold, docs doc comments, and fragments
	// those of them without a verb that the eye finds at once.
	long, words, docs, fragments int
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
	s.long, s.words, s.docs, s.fragments = s.long+o.long, s.words+o.words, s.docs+o.docs, s.fragments+o.fragments
}

func (s *style) print(out io.Writer) error {
	slices.SortStableFunc(s.structs, func(a, b structure) int { return b.values - a.values })
	text := &strings.Builder{}
	fmt.Fprintln(text, "\nstructs with the most values: fields, methods, values with those of the package's structs inside")
	for _, one := range s.structs[:min(len(s.structs), mostStructs)] {
		fmt.Fprintf(text, "  %s: %d, %d, %d\n", one.name, one.fields, one.methods, one.values)
	}
	fmt.Fprintf(text, "%d lines have over 140 columns; told, tells and untold stand %d times; %d of %d doc comments are fragments\n\n", s.long, s.words, s.fragments, s.docs)
	_, err := io.WriteString(out, text.String())
	return err
}

// styleOf reads a package's files.
func styleOf(room string, pkg *types.Package, files []*ast.File, texts []string) style {
	var s style
	for _, text := range texts {
		for line := range strings.Lines(text) {
			if columns(line) > 140 {
				s.long++
			}
			s.words += len(told.FindAllString(line, -1))
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
		for _, doc := range docs(f) {
			s.docs++
			if text := strings.Join(strings.Fields(doc), " "); fragment.MatchString(text) {
				s.fragments++
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

// docs are the doc comments of a file's declarations and fields.
func docs(f *ast.File) (all []string) {
	add := func(group *ast.CommentGroup) {
		if group != nil {
			all = append(all, group.Text())
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
