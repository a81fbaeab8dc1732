// Package cases reads configurations that are one thing off, what real Slurm does
// about each, and what package check says to it.
//
// A file is a topic. It begins with the files that its cases have in common; each
// case adds to the first of them, and replaces or adds whole files:
//
//	# Anything up to the first line with -- or == is for people.
//	-- slurm.conf
//	ClusterName=t
//	SlurmctldHost=ctl
//	== a-word-that-is-none
//	SlurmctldDebug=loud
//	-- refused
//	Invalid SlurmctldDebug loud
//	-- finds
//	slurm.conf:3:16: error: SlurmctldDebug is "loud": want …
//
// A case is refused or accepted by the daemon, whose log then has these lines.
// Where versions differ, each has a section: "-- accepted 24.11", "-- finds 24.11".
// What check says is that of the newest version otherwise. Where check and Slurm
// disagree, "-- because" says why.
//
// "-- daemon" before the first case is who judges, slurmctld unless it is slurmd or
// slurmdbd. ␀ stands for a NUL.
package cases

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// Versions are those of Slurm that the cases are tried with.
var Versions = []string{"24.11", "26.05"}

// Topic is the cases of one file.
type Topic struct {
	Path string
	// Daemon is who reads the configurations.
	Daemon string
	Cases  []*Case

	about    string
	sections []section
}

// Case is a configuration and what is said to it.
type Case struct {
	Name   string
	Daemon string
	// Files are the texts of the files by their names.
	Files map[string]string

	added    string
	sections []section
}

// Answer says whether a daemon refuses a configuration, and what it logs.
type Answer struct {
	Refused bool
	// Says is lines that its log has.
	Says string
}

type section struct{ heading, text string }

// Read reads the topics of a directory.
func Read(dir string) ([]*Topic, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("cannot find cases in %s: %v", dir, err)
	}
	var topics []*Topic
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read cases: %w", err)
		}
		t, err := Parse(path, string(text))
		if err != nil {
			return nil, err
		}
		topics = append(topics, t)
	}
	return topics, nil
}

// Parse reads a topic.
func Parse(path, text string) (*Topic, error) {
	t := &Topic{Path: path, Daemon: "slurmctld"}
	body := &t.about
	sections := &t.sections
	for line := range strings.Lines(text) {
		heading, isSection := strings.CutPrefix(line, "-- ")
		name, isCase := strings.CutPrefix(line, "== ")
		switch {
		case isCase:
			c := &Case{Name: strings.TrimSpace(name)}
			t.Cases = append(t.Cases, c)
			body, sections = &c.added, &c.sections
		case isSection:
			*sections = append(*sections, section{heading: strings.TrimSpace(heading)})
			body = &(*sections)[len(*sections)-1].text
		default:
			*body += line
		}
	}
	t.trim()
	return t, t.complete()
}

// trim: blank lines behind a section are between it and the next.
func (t *Topic) trim() {
	t.about = trimmed(t.about)
	trimAll(t.sections)
	for _, c := range t.Cases {
		c.added = trimmed(c.added)
		trimAll(c.sections)
	}
}

func trimAll(sections []section) {
	for i := range sections {
		sections[i].text = trimmed(sections[i].text)
	}
}

func trimmed(text string) string {
	if text = strings.TrimRight(text, "\n"); text != "" {
		text += "\n"
	}
	return text
}

// complete gives each case what it has in common with the others.
func (t *Topic) complete() error {
	common, first := map[string]string{}, ""
	for _, s := range t.sections {
		if s.heading == "daemon" {
			t.Daemon = strings.TrimSpace(s.text)
			continue
		}
		common[s.heading] = s.text
		first = cmp.Or(first, s.heading)
	}
	seen := map[string]bool{}
	for _, c := range t.Cases {
		if seen[c.Name] || first == "" {
			return fmt.Errorf("cannot use %s: case %s is there twice, or has no file to be added to", t.Path, c.Name)
		}
		seen[c.Name] = true
		c.Daemon, c.Files = t.Daemon, maps.Clone(common)
		for _, s := range c.sections {
			if isFile(s.heading) {
				c.Files[s.heading] = s.text
			}
		}
		c.Files[first] += c.added
		for name, text := range c.Files {
			c.Files[name] = strings.ReplaceAll(text, "␀", "\x00")
		}
	}
	return nil
}

// isFile: files of Slurm have a dot or a slash in their names.
func isFile(heading string) bool {
	return strings.ContainsAny(heading, "./") && !strings.Contains(heading, " ")
}

// Says is what a version of Slurm does; none where nobody has tried.
func (c *Case) Says(version string) (Answer, bool) {
	for _, heading := range []string{"refused " + version, "accepted " + version, "refused", "accepted"} {
		if text, ok := c.textOf(heading); ok {
			return Answer{Refused: strings.HasPrefix(heading, "refused"), Says: text}, true
		}
	}
	return Answer{}, false
}

// Finds is what check says for a version.
func (c *Case) Finds(version string) string {
	if text, ok := c.textOf("finds " + version); ok {
		return text
	}
	text, _ := c.textOf("finds")
	return text
}

// Because is why check and Slurm disagree, empty if they do not.
func (c *Case) Because() string {
	text, _ := c.textOf("because")
	return text
}

func (c *Case) textOf(heading string) (string, bool) {
	for _, s := range c.sections {
		if s.heading == heading {
			return s.text, true
		}
	}
	return "", false
}
