package papers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
)

// Case is a case of a test, as its table has it.
type Case struct {
	// Name is what -run takes. If the test makes the name longer, Open is set.
	Name string
	Open bool
	// On says on which versions of Slurm the case runs, if its row says so: either, both or only2411.
	On string
	// Full is set if the case runs with SLURMLET_E2E_FULL=1 only, by inTime.
	Full bool
}

// Cases are the cases of each test in a folder. A case is a row that begins with a string, in a
// table of the test, or in one that the test names: a variable, or what a function without
// parameters returns.
func Cases(dir string) (map[string][]Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	tests, err := CasesIn(files)
	for name, cases := range tests {
		if cases == nil {
			delete(tests, name)
		}
	}
	return tests, err
}

// CasesIn are the tests in some files of one folder, each with its cases, if it has any.
func CasesIn(files []string) (map[string][]Case, error) {
	tests, lists := map[string]ast.Node{}, tables{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				tests[f.Name.Name] = f.Body
			}
			lists.add(d)
		}
	}
	all := map[string][]Case{}
	for name, body := range tests {
		all[name] = lists.cases(body)
	}
	return all, nil
}

// tables are the tables of a package by name: a variable's rows, or a function's body.
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

// cases are those below n, which is a test's body or a table.
func (t tables) cases(n ast.Node) []Case {
	var all []Case
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "inTime" {
				for _, argument := range n.Args {
					for _, c := range t.cases(argument) {
						c.Full = true
						all = append(all, c)
					}
				}
				return false
			}
		case *ast.CompositeLit:
			if _, isList := n.Type.(*ast.ArrayType); !isList && len(n.Elts) > 1 {
				all = append(all, caseOf(n.Elts)...)
			}
		case *ast.Ident:
			if t[n.Name] != nil {
				all = append(all, t.of(n.Name)...)
			}
		}
		return true
	})
	return all
}

// of are the cases of a named table. A function may make a case for each row of another table, whose
// rows are none then.
func (t tables) of(name string) []Case {
	table, without := t[name], maps.Clone(t)
	delete(without, name)
	ast.Inspect(table, func(n ast.Node) bool {
		if r, ok := n.(*ast.RangeStmt); ok {
			if name, ok := r.X.(*ast.Ident); ok {
				delete(without, name.Name)
			}
		}
		return true
	})
	return without.cases(table)
}

// caseOf is the case of a row that begins with a string.
func caseOf(cells []ast.Expr) []Case {
	name, open := beginning(cells[0])
	if name == "" {
		return nil
	}
	c := Case{Name: name, Open: open}
	if on, ok := cells[len(cells)-1].(*ast.Ident); ok && (on.Name == "either" || on.Name == "both" || on.Name == "only2411") {
		c.On = on.Name
	}
	return []Case{c}
}

// beginning is the string that e is, or with which it begins, as a name of a test.
func beginning(e ast.Expr) (name string, open bool) {
	for {
		sum, ok := e.(*ast.BinaryExpr)
		if !ok {
			break
		}
		e, open = sum.X, true
	}
	if text, ok := e.(*ast.BasicLit); ok && text.Kind == token.STRING {
		if name, err := strconv.Unquote(text.Value); err == nil {
			return strings.ReplaceAll(name, " ", "_"), open
		}
	}
	return "", false
}
