package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
)

// failedTest and failedPackage are lines of go test.
var (
	failedTest    = regexp.MustCompile(`^\s*--- FAIL: (\S+) \(`)
	failedPackage = regexp.MustCompile(`^FAIL\s+github.com/slurmlet/slurmlet/(\S+)\s`)
	// ofACluster is the number of the cluster that has drawn the case: another one draws it the next time.
	ofACluster = regexp.MustCompile(`#\d+`)
)

// repeats returns the commands that run the failed tests of a step again, the step's own where its tests need what the
// Makefile gives them.
func repeats(step, log string) (commands []string) {
	flags := map[string]string{"native": "-tags e2e", "limits": "-tags e2e", "unit": "-race"}[step]
	data, err := os.ReadFile(log)
	if flags == "" || err != nil {
		return []string{"make " + step}
	}
	var failed []string
	for line := range strings.Lines(string(data)) {
		if m := failedTest.FindStringSubmatch(line); m != nil {
			failed = append(failed, ofACluster.ReplaceAllString(m[1], ""))
		} else if m := failedPackage.FindStringSubmatch(line); m != nil {
			for _, name := range leaves(failed) {
				commands = append(commands, "make && go test "+flags+" -count=1 -v -run '"+pattern(name)+"' ./"+m[1])
			}
			failed = nil
		}
	}
	if len(commands) == 0 {
		return []string{"make " + step}
	}
	slices.Sort(commands)
	return slices.Compact(commands)
}

// leaves are the tests that failed themselves, not by their subtests.
func leaves(tests []string) []string {
	return slices.DeleteFunc(slices.Clone(tests), func(name string) bool {
		return slices.ContainsFunc(tests, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

// pattern is what -run takes for the test: go test has put underscores in place of blanks. A dot stays as it is.
func pattern(name string) string {
	quoted := strings.ReplaceAll(regexp.QuoteMeta(name), `\.`, ".")
	return strings.ReplaceAll(quoted, "'", ".") // the shell's
}
