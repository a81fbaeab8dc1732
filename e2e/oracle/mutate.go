package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// elsewhere are keys whose values are right or wrong by the machine: what is mutated
// there is nothing that check can know.
var elsewhere = regexp.MustCompile(`(?i)^\s*(SlurmctldHost|SlurmctldAddr|ControlMachine|ControlAddr|BackupController|BackupAddr|SlurmUser|SlurmdUser|StateSaveLocation|PluginDir|AuthType|CredType|CryptoType|SlurmctldPidFile|SlurmctldLogFile|` +
	`AccountingStorage\w*|AuthAltTypes|AuthAltParameters|AuthInfo|JobSubmitPlugins|BurstBufferType|NodeFeaturesPlugins|JobCompLoc|SlurmSchedLogFile|SlurmctldParameters)\s*=`)

var (
	host       = regexp.MustCompile(`(?im)^(SlurmctldHost\s*=\s*)\S+`)
	authorized = regexp.MustCompile(`(?im)^AuthType\s*=`)
)

// transplanted is a slurm.conf as it can be on our machine.
func transplanted(text string) string {
	first := true
	text = host.ReplaceAllStringFunc(text, func(line string) string {
		if !first {
			return line
		}
		first = false
		return host.ReplaceAllString(line, "${1}ctl")
	})
	var kept []string
	for line := range strings.Lines(text) {
		if elsewhere.MatchString(line) && !host.MatchString(line) {
			continue
		}
		line = strings.ReplaceAll(line, ",GRES/gpu=16.0", "")
		kept = append(kept, strings.ReplaceAll(line, ",GRES/gpu=3000", ""))
	}
	text = strings.Join(kept, "")
	if !authorized.MatchString(text) {
		text = "AuthType=auth/slurm\nCredType=cred/slurm\n" + text
	}
	return text
}

// mutate makes one change to one line of one of the configurations.
func mutate(random *rand.Rand, seeds []mutant) mutant {
	for {
		seed := seeds[random.IntN(len(seeds))]
		m := mutant{of: seed.of, files: maps.Clone(seed.files)}
		name := pick(random, slices.DeleteFunc(slices.Sorted(maps.Keys(m.files)), func(n string) bool {
			return n != "slurm.conf" && n != "topology.conf" && n != "cgroup.conf"
		}))
		lines := slices.Collect(strings.Lines(m.files[name]))
		if len(lines) == 0 {
			continue
		}
		i := random.IntN(len(lines))
		line := strings.TrimRight(lines[i], "\r\n")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		change := pick(random, changes)
		if elsewhere.MatchString(line) && change.name != "a letter of the key" {
			continue
		}
		other := seeds[random.IntN(len(seeds))]
		changed, ok := change.make(random, line, strings.Split(other.files["slurm.conf"], "\n"))
		if !ok || changed == line {
			continue
		}
		lines[i] = changed + "\n"
		m.files[name] = strings.Join(lines, "")
		m.change = fmt.Sprintf("%s, %s: %q", name, change.name, changed)
		return m
	}
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// change makes another line of one; others are lines of another configuration.
type change struct {
	name string
	make func(random *rand.Rand, line string, others []string) (string, bool)
}

var changes = []change{
	{"a letter of the key", func(r *rand.Rand, line string, _ []string) (string, bool) {
		return inPart(r, line, `[A-Za-z]{3,}=`, func(s string) string { return typo(r, strings.TrimSuffix(s, "=")) + "=" })
	}},
	{"a letter of a value", func(r *rand.Rand, line string, _ []string) (string, bool) {
		return inPart(r, line, `=[^ ,=]+`, func(s string) string { return "=" + typo(r, s[1:]) })
	}},
	{"a word of a list", func(r *rand.Rand, line string, _ []string) (string, bool) {
		return inPart(r, line, `,[^ ,=]+`, func(s string) string { return "," + typo(r, s[1:]) })
	}},
	{"a number", func(r *rand.Rand, line string, _ []string) (string, bool) {
		return inPart(r, line, `\d+`, func(string) string {
			return pick(r, []string{"0", "1", "-1", "3", "70000", "99999999999", "ten", "5G", "64k", "1.5", "", "UNLIMITED"})
		})
	}},
	{"another value", func(r *rand.Rand, line string, _ []string) (string, bool) {
		return inPart(r, line, `=[^ =]+`, func(string) string {
			return "=" + pick(r, []string{"yes", "NO", "none", "1", "0", "ALL", "n1", "x", "UNLIMITED", "a,b", "n[1-2]", "soon", "1:2:3", `""`, "7-", "CR_Core", "/tmp"})
		})
	}},
	{"no value", func(r *rand.Rand, line string, _ []string) (string, bool) {
		return inPart(r, line, `=[^ =]+`, func(string) string { return "=" })
	}},
	{"capitals", func(r *rand.Rand, line string, _ []string) (string, bool) {
		return inPart(r, line, `=[^ =]+`, strings.ToUpper)
	}},
	{"small letters", func(r *rand.Rand, line string, _ []string) (string, bool) {
		return inPart(r, line, `=[^ =]+`, strings.ToLower)
	}},
	{"a sign less", func(r *rand.Rand, line string, _ []string) (string, bool) {
		return inPart(r, line, `[]",:=\[/-]`, func(string) string { return "" })
	}},
	{"a sign more", func(r *rand.Rand, line string, _ []string) (string, bool) {
		return inPart(r, line, `[A-Za-z0-9]\b`, func(s string) string {
			return s + pick(r, []string{",", "]", "[", " ", "=", `"`, "-", ":", ";", "#", `\`, "/", "*", "+", "\u00a0"})
		})
	}},
	{"two lines in one", func(r *rand.Rand, line string, others []string) (string, bool) {
		return line + " " + strings.TrimSpace(pick(r, others)), true
	}},
	{"a line twice", func(_ *rand.Rand, line string, _ []string) (string, bool) { return line + "\n" + line, true }},
	{"a line less", func(_ *rand.Rand, _ string, _ []string) (string, bool) { return "", true }},
	{"a line of another", func(r *rand.Rand, line string, others []string) (string, bool) {
		other := pick(r, others)
		return line + "\n" + other, !elsewhere.MatchString(other) && !strings.HasSuffix(other, `\`) && !strings.HasSuffix(line, `\`)
	}},
	{"white space before the line", func(_ *rand.Rand, line string, _ []string) (string, bool) { return "  " + line, true }},
}

// inPart changes one of the parts of a line that match.
func inPart(random *rand.Rand, line, pattern string, to func(string) string) (string, bool) {
	parts := regexp.MustCompile(pattern).FindAllStringIndex(line, -1)
	if len(parts) == 0 {
		return line, false
	}
	at := parts[random.IntN(len(parts))]
	return line[:at[0]] + to(line[at[0]:at[1]]) + line[at[1]:], true
}

// typo leaves a letter out, doubles it, changes it, or swaps it with the next.
func typo(random *rand.Rand, word string) string {
	if len(word) < 2 {
		return word + "x"
	}
	i := random.IntN(len(word) - 1)
	switch random.IntN(4) {
	case 0:
		return word[:i] + word[i+1:]
	case 1:
		return word[:i+1] + word[i:]
	case 2:
		return word[:i] + string(rune('a'+random.IntN(26))) + word[i+1:]
	default:
		return word[:i] + word[i+1:i+2] + word[i:i+1] + word[i+2:]
	}
}

func indented(text string) string {
	return "\t" + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n\t") + "\n"
}
