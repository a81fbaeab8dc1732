package why

import (
	"fmt"
	"io"
	"strings"
)

// Runner is how a person runs a command of a cure: the words before it.
type Runner struct {
	// Slurm are the words before Slurm's commands, as in kubectl exec -n slurm slurm-slurmctld-0 --.
	Slurm []string
	// Namespace is that of kubectl's commands, and Cluster the cluster's name where the namespace has several.
	Namespace, Cluster string
}

// Line is a command as a person types it.
func (r Runner) Line(c Command) string {
	words := c.Args
	if c.Slurm {
		words = append(append([]string{}, r.Slurm...), c.Args...)
	} else if len(words) > 1 && words[0] == "kubectl" && r.Namespace != "" {
		words = append([]string{"kubectl"}, r.options(words[1:])...)
	}
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quote(word)
	}
	return strings.Join(quoted, " ")
}

// options puts the namespace behind the verb: kubectl takes none before the name of a plugin.
func (r Runner) options(words []string) []string {
	own := words[0] == "slurm" && len(words) > 1
	n := 1
	if own {
		n = 2
	}
	switch words[0] {
	case "uncordon", "taint", "cordon":
		return words
	}
	if len(words) > 1 && (words[1] == "node" || words[1] == "nodes") {
		return words
	}
	all := append(append([]string{}, words[:n]...), "-n", r.Namespace)
	if own && r.Cluster != "" {
		all = append(all, "--cluster", r.Cluster)
	}
	return append(all, words[n:]...)
}

// quote is for a shell.
func quote(word string) string {
	safe := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./:=,@+%", c)
	}
	if word != "" && strings.IndexFunc(word, func(c rune) bool { return !safe(c) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// WriteText writes the answer for people.
func (a Answer) WriteText(w io.Writer, r Runner) {
	fmt.Fprintf(w, "%s.\n", strings.TrimSuffix(a.About, "."))
	switch {
	case a.Fine && len(a.Causes) == 0:
		fmt.Fprintln(w, "\nThere is nothing to mend.")
	case a.Fine && a.Causes[0].Sure != Certain:
		fmt.Fprintln(w, "\nIt works. What may matter besides:")
	case len(a.Causes) == 0:
		fmt.Fprintln(w, "\nI do not know why.")
	case a.Causes[0].Sure != Certain:
		fmt.Fprintln(w, "\nI do not know for certain why.")
	}
	for _, c := range a.Causes {
		mark := ""
		if c.Sure != Certain && !a.Fine {
			mark = " (" + string(c.Sure) + ")"
		}
		fmt.Fprintf(w, "\n%s%s\n", c.Text, mark)
		for _, d := range c.Details {
			fmt.Fprintf(w, "  %s\n", d)
		}
		for _, cure := range c.Cures {
			fmt.Fprintf(w, "  → %s\n", cure.Text)
			if cure.Command != nil {
				fmt.Fprintf(w, "      %s\n", r.Line(*cure.Command))
			}
		}
	}
	for i, title := range []string{"What is known", "What is not known"} {
		lines := [][]string{a.Facts, a.Unknown}[i]
		if len(lines) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", title)
		for _, line := range lines {
			fmt.Fprintf(w, "  %s\n", strings.TrimSpace(line))
		}
	}
}
