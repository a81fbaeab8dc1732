package papers

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	variable = regexp.MustCompile(`SLURMLET_[A-Z0-9_]*[A-Z0-9]`)
	target   = regexp.MustCompile(`(?:^|[ ;&|(])make ([a-z][a-z0-9-]*)`)
	rule     = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
	goTest   = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
	goFunc   = regexp.MustCompile(`(?m)^func (?:Test|Fuzz|Benchmark)[A-Z]\w*`)
	inTree   = regexp.MustCompile(`(?:^|[\s(])((?:agent|cgroup|charts|cmd|controller|e2e|images|internal|slurmconf|\.ci)/[\w./@-]*\w)`)
)

// Names are those that the papers may use, because the code has them.
type Names struct {
	root      string
	variables map[string]bool
	targets   map[string]bool
	tests     map[string]bool
}

// NamesOf reads what the code, the Makefile and the charts below root define.
func NamesOf(root string) (Names, error) {
	n := Names{root: root, variables: map[string]bool{}, targets: map[string]bool{}, tests: map[string]bool{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "testdata"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !slices.Contains([]string{".go", ".yaml", ".tpl", ".hcl", ".service", ""}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if filepath.Base(filepath.Dir(path)) != "papers" { // whose tests make some up
			for _, name := range variable.FindAllString(string(text), -1) {
				n.variables[name] = true
			}
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, head := range goFunc.FindAllString(string(text), -1) {
				n.tests[strings.TrimPrefix(head, "func ")] = true
			}
		}
		if d.Name() == "Makefile" {
			for _, m := range rule.FindAllStringSubmatch(string(text), -1) {
				n.targets[m[1]] = true
			}
		}
		return nil
	})
	return n, err
}

// Unknown are the names in the paper that the code does not have: variables,
// targets of make, tests, and paths.
func (n Names) Unknown(p Paper) []string {
	var unknown []string
	complain := func(i int, what, name string) {
		unknown = append(unknown, fmt.Sprintf("%s:%d: no %s %s", p.Path, i+1, what, name))
	}
	for i, line := range p.Lines {
		for _, name := range variable.FindAllString(line, -1) {
			if !n.variables[name] {
				complain(i, "variable", name)
			}
		}
	}
	for i, code := range p.Code() {
		for _, m := range target.FindAllStringSubmatch(code, -1) {
			if !n.targets[m[1]] {
				complain(i, "target of make", m[1])
			}
		}
		for _, name := range goTest.FindAllString(code, -1) {
			if !n.tests[name] {
				complain(i, "test", name)
			}
		}
	}
	for i, line := range p.Lines {
		for _, m := range inTree.FindAllStringSubmatch(strings.NewReplacer("`", " ", "(", " ").Replace(line), -1) {
			if _, err := os.Stat(filepath.Join(n.root, m[1])); err != nil {
				complain(i, "path", m[1])
			}
		}
	}
	return unknown
}
