package cases

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// SetSays notes what each version of Slurm does.
func (c *Case) SetSays(answers map[string]Answer) {
	c.remove("refused", "accepted")
	texts := map[string]string{}
	var headings []string
	same := true
	for _, version := range Versions {
		answer := answers[version]
		heading := "accepted"
		if answer.Refused {
			heading = "refused"
		}
		same = same && answer == answers[Versions[0]]
		headings = append(headings, heading)
		texts[version] = answer.Says
	}
	if same {
		c.sections = append(c.sections, section{headings[0], texts[Versions[0]]})
		return
	}
	for i, version := range Versions {
		c.sections = append(c.sections, section{headings[i] + " " + version, texts[version]})
	}
}

// SetFinds notes what check says for each version.
func (c *Case) SetFinds(texts map[string]string) {
	c.remove("finds")
	newest := texts[Versions[len(Versions)-1]]
	if newest != "" {
		c.sections = append(c.sections, section{"finds", newest})
	}
	for _, version := range Versions {
		if texts[version] != newest {
			c.sections = append(c.sections, section{"finds " + version, texts[version]})
		}
	}
}

func (c *Case) remove(kinds ...string) {
	c.sections = slices.DeleteFunc(c.sections, func(s section) bool {
		kind, _, _ := strings.Cut(s.heading, " ")
		return slices.Contains(kinds, kind)
	})
}

// Write writes the topic to its file: case, files, what Slurm does, what check says, why.
func (t *Topic) Write() error {
	if err := os.WriteFile(t.Path, []byte(t.String()), 0o644); err != nil {
		return fmt.Errorf("cannot write cases: %w", err)
	}
	return nil
}

// String is the text of the file.
func (t *Topic) String() string {
	var b strings.Builder
	b.WriteString(t.about)
	writeSections(&b, t.sections)
	for _, c := range t.Cases {
		b.WriteString("\n== " + c.Name + "\n" + c.added)
		slices.SortStableFunc(c.sections, func(a, b section) int { return rank(a) - rank(b) })
		writeSections(&b, c.sections)
	}
	return b.String()
}

func writeSections(b *strings.Builder, sections []section) {
	for _, s := range sections {
		b.WriteString("-- " + s.heading + "\n" + s.text)
	}
}

// rank is the order of the sections of a case.
func rank(s section) int {
	kind, _, _ := strings.Cut(s.heading, " ")
	return 1 + slices.Index([]string{"refused", "accepted", "finds", "because"}, kind)
}
