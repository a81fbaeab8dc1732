// Cases lists the tests that targets of the Makefile run, one in a line, and runs none of them:
//
//	go run ./e2e/papers/cases [-make make] [target…]
//
// The columns are the target, the package, the test, its case, and where the case runs, if its table
// says so: on either version of Slurm or on both, or with SLURMLET_E2E_FULL=1 only (full). A name
// with … stands for several. The program asks `make -n` for the packages and filters of a target. It
// reads the cases of tests with real Slurm and Kubernetes from their tables (papers.Cases). It lists
// other tests without the subtests that they make while they run.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/slurmlet/slurmlet/e2e/papers"
)

// targets are those that run tests, and no other of these.
var targets = []string{"unit", "native", "limits", "kube", "e2e-kube", "controller", "charts", "lint", "hooks", "release-test"}

func main() {
	program := flag.String("make", "make", "the `program` that knows the recipes")
	flag.Parse()
	chosen := flag.Args()
	if len(chosen) == 0 {
		chosen = targets
	}
	if err := list(os.Stdout, *program, chosen); err != nil {
		fmt.Fprintln(os.Stderr, "cases:", err)
		os.Exit(1)
	}
}

func list(to io.Writer, program string, targets []string) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, target := range targets {
		cmd := exec.Command(program, "-n", "BUILT=", target)
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKEFLAGS=") })
		cmd.Stderr = os.Stderr
		recipe, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("cannot ask make for %s: %w", target, err)
		}
		found := commands(string(recipe))
		if len(found) == 0 {
			return fmt.Errorf("%s runs no go test", target)
		}
		for _, c := range found {
			if err := c.list(table, target); err != nil {
				return err
			}
		}
	}
	return table.Flush()
}

// command is a go test of a recipe.
type command struct {
	packages, tags []string
	run, skip      string
}

// goTest is a go test up to what the shell makes of it.
var goTest = regexp.MustCompile(`\bgo test ((?:'[^']*'|[^'|&;<>\n])*)`)

// word is one of its arguments.
var word = regexp.MustCompile(`'[^']*'|\S+`)

// commands are the go tests of a recipe.
func commands(recipe string) (all []command) {
	for _, m := range goTest.FindAllStringSubmatch(strings.ReplaceAll(recipe, "\\\n", " "), -1) {
		var c command
		words := word.FindAllString(m[1], -1)
		for i, w := range words {
			before := ""
			if i > 0 {
				before = words[i-1]
			}
			switch w = strings.Trim(w, "'"); {
			case before == "-tags":
				c.tags = []string{"-tags", w}
			case before == "-run":
				c.run = w
			case before == "-skip":
				c.skip = w
			case strings.HasPrefix(w, "./"):
				c.packages = append(c.packages, w)
			}
		}
		all = append(all, c)
	}
	return all
}

// folder is what go list says of a package.
type folder struct {
	Dir                       string
	TestGoFiles, XTestGoFiles []string
}

func (c command) list(to io.Writer, target string) error {
	cmd := exec.Command("go", slices.Concat([]string{"list"}, c.tags, []string{"-json=Dir,TestGoFiles,XTestGoFiles"}, c.packages)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("cannot list packages: %w", err)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var one folder
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("cannot read what go list says: %w", err)
		}
		tests, err := one.tests()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, one.Dir)
		if err != nil {
			return err
		}
		for _, row := range c.rows(tests) {
			fmt.Fprintf(to, "%s\t./%s\t%s\n", target, filepath.ToSlash(name), row)
		}
	}
}

// tests are those of a folder. Those that need no real Slurm have no cases: the rows of their tables
// are often values.
func (f folder) tests() (map[string][]papers.Case, error) {
	var all, without []string
	for _, name := range slices.Concat(f.TestGoFiles, f.XTestGoFiles) {
		path := filepath.Join(f.Dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, path)
		if !bytes.HasPrefix(text, []byte("//go:build e2e\n")) {
			without = append(without, path)
		}
	}
	tests, err := papers.CasesIn(all)
	if err != nil {
		return nil, err
	}
	plain, err := papers.CasesIn(without)
	for name := range plain {
		tests[name] = nil
	}
	return tests, err
}

// rows are the tests and cases that the filters let through: test, case, where.
func (c command) rows(tests map[string][]papers.Case) (rows []string) {
	test, rest, _ := strings.Cut(c.run, "/")
	only := regexp.MustCompile(test)
	cases := regexp.MustCompile(rest[strings.LastIndex(rest, "/")+1:])
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		if !only.MatchString(name) || c.skip != "" && regexp.MustCompile(c.skip).MatchString(name) {
			continue
		}
		if len(tests[name]) == 0 {
			rows = append(rows, name)
		}
		for _, one := range tests[name] {
			if !cases.MatchString(one.Name) {
				continue
			}
			where := cmp.Or(map[string]string{"only2411": "24.11"}[one.On], one.On)
			if one.Full {
				where = "full"
			}
			if one.Open {
				one.Name += "…"
			}
			if row := strings.TrimSuffix(name+"\t"+one.Name+"\t"+where, "\t"); !slices.Contains(rows, row) {
				rows = append(rows, row)
			}
		}
	}
	return rows
}
