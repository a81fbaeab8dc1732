// Package papers reads the repository's Markdown, so that tests hold it to the
// code: its commands run, its links lead somewhere, its names exist.
//
// Every fenced block has a language. A block of language sh says in its info
// string how a test runs it:
//
//	sh run=check                   on this machine, with slurmlet and helm in PATH
//	sh run=sandbox                 against the cluster of `make up`, in the order of the file
//	sh run=kube                    against the cluster of `make kube-up`, in the order of the file
//	sh run=none because="reason"   no test runs it; its syntax is checked
//
// A block "text output" holds what the block of commands before it prints.
package papers

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Paper is one Markdown file.
type Paper struct {
	Path   string // relative to the repository's root, with slashes
	Lines  []string
	Blocks []Block
}

// Block is one fenced block.
type Block struct {
	Paper    string // its Path
	Line     int    // of the opening fence, from 1
	Language string
	Run      string // how a test runs it: check, sandbox, kube or none; empty for other languages than sh
	Because  string // why no test runs it
	Text     string
	Output   *string // what it prints, if the paper says so
}

func (b Block) String() string { return fmt.Sprintf("%s:%d", b.Paper, b.Line) }

// ReadAll reads every Markdown file below root but those of test data and builds.
func ReadAll(root string) ([]Paper, error) {
	var all []Paper
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "testdata"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		one, err := Read(root, filepath.ToSlash(name))
		all = append(all, one)
		return err
	})
	return all, err
}

// Read reads the Markdown file path below root.
func Read(root, path string) (Paper, error) {
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return Paper{}, err
	}
	p := Paper{Path: path, Lines: strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")}
	p.Blocks, err = p.blocks()
	return p, err
}

// blocks finds the fenced blocks.
func (p Paper) blocks() ([]Block, error) {
	var all []Block
	var open *Block
	var text strings.Builder
	for i, line := range p.Lines {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			b, err := p.newBlock(i+1, info)
			if err != nil {
				return nil, err
			}
			open = &b
			text.Reset()
		case fence && info != "":
			return nil, fmt.Errorf("%s:%d: a block begins inside of the block of line %d", p.Path, i+1, open.Line)
		case fence:
			open.Text = text.String()
			if open.Language == "text output" {
				if len(all) == 0 || all[len(all)-1].Run == "" {
					return nil, fmt.Errorf("%s: output follows no block of commands", open)
				}
				all[len(all)-1].Output = &open.Text
			}
			all, open = append(all, *open), nil
		case open != nil:
			text.WriteString(line + "\n")
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s: the block has no end", open)
	}
	return all, nil
}

// marked is the info string of a block of commands.
var marked = regexp.MustCompile(`^sh run=(check|sandbox|kube|none)(?: because="([^"]+)")?$`)

func (p Paper) newBlock(line int, info string) (Block, error) {
	b := Block{Paper: p.Path, Line: line, Language: info}
	language, _, _ := strings.Cut(info, " ")
	switch {
	case info == "":
		return b, fmt.Errorf("%s: the block has no language: want sh, text, toml, yaml …", b)
	case slices.Contains([]string{"bash", "shell", "console"}, language):
		return b, fmt.Errorf("%s: the language is %s: want sh, with run=", b, language)
	case language != "sh":
		return b, nil
	}
	mark := marked.FindStringSubmatch(info)
	if mark == nil {
		return b, fmt.Errorf(`%s: cannot use %q: want sh run=check, sandbox, kube or none because="…"`, b, info)
	}
	b.Language, b.Run, b.Because = "sh", mark[1], mark[2]
	if (b.Run == "none") != (b.Because != "") {
		return b, fmt.Errorf(`%s: cannot use %q: because="…" belongs to run=none, and to nothing else`, b, info)
	}
	return b, nil
}

// Marked are the blocks of the papers that a test runs in this way.
func Marked(all []Paper, run string) []Block {
	var blocks []Block
	for _, p := range all {
		for _, b := range p.Blocks {
			if b.Run == run {
				blocks = append(blocks, b)
			}
		}
	}
	return blocks
}

// Command is bash with the block's commands; the first that fails ends it.
func (b Block) Command(ctx context.Context) *exec.Cmd {
	return exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", b.Text)
}

// chart is the path by which papers name the chart of this repository.
const chart = "charts/slurm"

// Installs are the arguments of `helm template` for each `helm install` and
// `helm upgrade` of the repository's chart in the block.
func (b Block) Installs() [][]string {
	var all [][]string
	if b.Run == "" {
		return nil
	}
	for line := range strings.Lines(strings.ReplaceAll(b.Text, "\\\n", " ")) {
		words := strings.Fields(line)
		at := slices.Index(words, "helm")
		if at < 0 || len(words) < at+4 || words[at+1] != "install" && words[at+1] != "upgrade" || words[at+3] != chart {
			continue
		}
		var args []string
		for i := at + 2; i < len(words) && !strings.HasPrefix(words[i], "#") && words[i] != "&&"; i++ {
			switch words[i] {
			case "--reuse-values", "--reset-then-reuse-values":
				args = append(args, "--set", "image.registry=kept") // of the install
			case "--wait":
			case "--timeout":
				i++
			default:
				args = append(args, strings.Trim(words[i], "'")) // no value of the papers has a space
			}
		}
		all = append(all, args)
	}
	return all
}
