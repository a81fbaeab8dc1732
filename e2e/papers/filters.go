package papers

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	// filter is the -run of a go test with cases, as in 'TestSlurm/.*/a_pod'.
	filter = regexp.MustCompile(`-run '?(Test\w+)/(\S+?)'?(?:\s|$)`)
	group  = regexp.MustCompile(`\(([^()]*)\)`)
)

// Idle are the -run filters in a text that name no case of their test. Each
// alternative of a filter names one.
func Idle(text string, cases map[string][]Case) []string {
	var idle []string
	for _, m := range filter.FindAllStringSubmatch(text, -1) {
		all, known := cases[m[1]]
		if !known {
			idle = append(idle, m[1]+": no such test has cases")
			continue
		}
		for _, one := range alternatives(m[2][strings.LastIndex(m[2], "/")+1:]) {
			pattern, err := regexp.Compile(one)
			if err != nil || !slices.ContainsFunc(all, func(c Case) bool { return pattern.MatchString(c.Name) }) {
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
