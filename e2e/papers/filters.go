package papers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	// filter is the -run of a go test with cases, as in 'TestSlurm/.*/a_pod'.
	filter = regexp.MustCompile(`-run '?(Test\w+)/(\S+?)'?(?:\s|$)`)
	group  = regexp.MustCompile(`\(([^()]*)\)`)
)

// Idle are the -run filters in a text that name no case of their test. Each
// alternative of a filter names one.
func Idle(text string, cases map[string][]string) []string {
	var idle []string
	for _, m := range filter.FindAllStringSubmatch(text, -1) {
		names, known := cases[m[1]]
		if !known {
			idle = append(idle, m[1]+": no such test has cases")
			continue
		}
		for _, one := range alternatives(m[2][strings.LastIndex(m[2], "/")+1:]) {
			pattern, err := regexp.Compile(one)
			if err != nil || !slices.ContainsFunc(names, pattern.MatchString) {
				idle = append(idle, fmt.Sprintf("%s has no case %s", m[1], one))
			}
		}
	}
	return idle
}

// alternatives are the patterns without groups that a|(b|c)d stands for.
func alternatives(pattern string) []string {
	at := group.FindStringSubmatchIndex(pattern)
	if at == nil {
		return strings.Split(pattern, "|")
	}
	var all []string
	for one := range strings.SplitSeq(pattern[at[2]:at[3]], "|") {
		all = append(all, alternatives(around(pattern, at[0], at[1], one))...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// around is pattern with one in place of what is from begin to end.
func around(pattern string, begin, end int, one string) string {
	return pattern[:begin] + one + pattern[end:]
}

// Cases are the names of the cases of each test in a folder, as -run sees them. A
// case is a row that begins with a string, in a table of the test, or in one that the
// test names: a variable, or what a function without parameters returns.
func Cases(dir string) (map[string][]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	tests, lists := map[string]ast.Node{}, tables{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				tests[f.Name.Name] = f.Body
			}
			lists.add(d)
		}
	}
	all := map[string][]string{}
	for name, body := range tests {
		if names := lists.names(body); names != nil {
			all[name] = names
		}
	}
	return all, nil
}

// tables are the tables of a package by name.
type tables map[string]ast.Node

func (t tables) add(d ast.Decl) {
	isList := func(e ast.Expr) bool { _, ok := e.(*ast.ArrayType); return ok }
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Type.Params.NumFields() == 0 && d.Type.Results.NumFields() == 1 && isList(d.Type.Results.List[0].Type) {
			t[d.Name.Name] = d.Body
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				continue
			}
			if table, ok := v.Values[0].(*ast.CompositeLit); ok && isList(table.Type) {
				t[v.Names[0].Name] = table
			}
		}
	}
}

// names are those of the cases below n.
func (t tables) names(n ast.Node) []string {
	var all []string
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if _, isList := n.Type.(*ast.ArrayType); !isList && len(n.Elts) > 1 {
				all = append(all, beginning(n.Elts[0])...)
			}
		case *ast.Ident:
			if table := t[n.Name]; table != nil {
				all = append(all, t.names(table)...)
			}
		}
		return true
	})
	return all
}

// beginning is the string that e is, or begins with, as a name of a test.
func beginning(e ast.Expr) []string {
	for {
		sum, ok := e.(*ast.BinaryExpr)
		if !ok {
			break
		}
		e = sum.X
	}
	if text, ok := e.(*ast.BasicLit); ok && text.Kind == token.STRING {
		if name, err := strconv.Unquote(text.Value); err == nil {
			return []string{strings.ReplaceAll(name, " ", "_")}
		}
	}
	return nil
}
