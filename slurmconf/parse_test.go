package slurmconf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/slurmconf"
)

func TestGrammar(t *testing.T) {
	for _, c := range []struct {
		about, text string
		// Pairs as Key=Value at line:column of the value, a line each.
		pairs, findings []string
	}{
		{"a pair", "ClusterName=a\n", list("1:13 ClusterName=a"), nil},
		{"white space around =", " \tClusterName \t=\v a \n", list("1:19 ClusterName=a"), nil},
		{"no line end", "ClusterName=a", list("1:13 ClusterName=a"), nil},
		{"CRLF", "ClusterName=a\r\nKillWait=\\\r\n5\r\n", list("1:13 ClusterName=a", "3:1 KillWait=5"), nil},
		{"blank lines and comments", "\n  \n# ClusterName=b\n\tClusterName=a # c\n", list("4:14 ClusterName=a"), nil},
		{"a comment needs no white space", "ClusterName=a#b\n", list("1:13 ClusterName=a"), nil},
		{"a # in a value", `SlurmdParameters=a\#b # c`, list("1:18 SlurmdParameters=a#b"), nil},
		{"a backslash in a value", `MailProg=a\\b`, list(`1:10 MailProg=a\b`), nil},
		{"a # behind an escaped backslash is a comment", `MailProg=a\\#b`, list(`1:10 MailProg=a\`), nil},
		{"other backslashes vanish", `Kill\Wait=\5`, list("1:12 KillWait=5"), nil},
		{"a continued line", "ClusterName=\\\n  a\nKillWait=1\n", list("2:3 ClusterName=a", "3:10 KillWait=1"), nil},
		{"a value goes on", "TaskPlugin=task/cgroup,\\\ntask/affinity\n", list("1:12 TaskPlugin=task/cgroup,task/affinity"), nil},
		{"white space and a comment behind the backslash", "KillWait=\\  # one\n 5\n", list("2:2 KillWait=5"), nil},
		{"a continued comment is none", "# a \\\nKillWait=5\n", list("2:10 KillWait=5"), nil},
		{"three backslashes", "MailProg=x\\\\\\\ny\n", list(`1:10 MailProg=x\y`), nil},
		{"two backslashes end no line", "MailProg=x\\\\\nKillWait=5\n", list(`1:10 MailProg=x\`, "2:10 KillWait=5"), nil},
		{"the last line is continued", "KillWait=5\\", list("1:10 KillWait=5"), nil},
		{"quotes", `MailProg="a b"`, list("1:10 MailProg=a b"), nil},
		{"an empty value", `MailProg=""`, list("1:10 MailProg="), nil},
		{"= in a value", `LaunchParameters=a=b`, list("1:18 LaunchParameters=a=b"), nil},
		{"no value", "KillWait=\n", nil, list(`1:1: error: KillWait has no value: want one, or "" for an empty value`)},
		{"no =", "KillWait 5\n", nil, list(`1:1: error: cannot read "KillWait 5": want Key=value`)},
		{"no key", "=5\n", nil, list(`1:1: error: cannot read "=5": want Key=value`)},
		{
			"a value of two words", "NodeName=a Reason=not now State=DOWN\n", list("1:10 NodeName=a", "1:19 Reason=not"),
			list(`1:23: error: cannot read "now State=DOWN": want Key=value, or Reason="not now" if that is all one value`),
		},
		{
			"a no-break space between values", "NodeName=a \u00a0CPUs=4\n", list("1:10 NodeName=a"),
			list("1:12: error: cannot read \"\\u00a0CPUs=4\", which has a no-break space (U+00A0): want white space, or nothing"),
		},
		{
			"a no-break space in a value", "NodeName=a\u00a0CPUs=4\n", list("1:10 NodeName=a\u00a0CPUs=4"),
			list("1:11: warning: the value of NodeName has a no-break space (U+00A0), which is a letter to Slurm: want white space, or nothing"),
		},
		{
			"two values", "KillWait=5 SlurmdPort=6\n", list("1:10 KillWait=5"),
			list(`1:12: error: "SlurmdPort=6" behind the value of KillWait: want SlurmdPort on a line of its own`),
		},
		{
			"a record", "NodeName=n[1-2] CPUs=4 \\\n Feature=\"a b\"\n",
			list("1:10 NodeName=n[1-2]", "1:22 CPUs=4", "2:10 Feature=a b"), nil,
		},
		{
			"the rest of a record", "NodeName=a CPUs=4 Feature=\n", list("1:10 NodeName=a", "1:17 CPUs=4"),
			list(`1:19: error: Feature has no value: want one, or "" for an empty value`),
		},
		{
			"an empty value in a record takes the next pair", "NodeName=a Feature= CPUs=4\n", list("1:10 NodeName=a", "1:21 Feature=CPUs=4"),
			list(`1:21: warning: the value of Feature is CPUs=4: want "" for an empty value`),
		},
		{
			"quotes inside a value", `MailProg="a"b`, list(`1:10 MailProg="a"b`),
			list(`1:10: warning: the quotation marks are part of the value "a"b: want the whole value between two ", and \# for a # in it`),
		},
		{
			"a # between quotes", `MailProg="a#b"`, list(`1:10 MailProg="a`),
			list(`1:10: warning: the quotation marks are part of the value "a: want the whole value between two ", and \# for a # in it`),
		},
		{
			"operators", "DebugFlags+=a\n", list("1:13 DebugFlags=a"),
			list("1:11: warning: Slurm takes DebugFlags+= for DebugFlags=: want ="),
		},
		{"an operator apart", "KillWait+ =5\n", nil, list(`1:1: error: cannot read "KillWait+ =5": want Key=value`)},
		{
			"a byte order mark", "\xef\xbb\xbf# a\n", nil,
			list("1:1: error: a byte order mark, which Slurm takes for part of the first key: want UTF-8 without it", `1:1: error: cannot read "\ufeff": want Key=value`),
		},
		{
			"a NUL", "KillWait=5\x006\n", list("1:10 KillWait=5"),
			list("1:11: warning: a NUL byte, which hides the rest of the line from Slurm: want text"),
		},
		{"Include without a file", "Include \n", nil, list("1:1: error: Include without a file: want the name of one")},
		{"Include of a pattern", "include conf.d/*\n", nil, list(`1:9: error: Slurm includes no patterns, such as "conf.d/*": want an Include for each file`)},
		{"Include of two files", "Include a b\n", nil, list(`1:11: error: "b" behind Include a: want one file`)},
		{
			"Include not at the beginning", " Include a\n", nil,
			list(`1:2: error: cannot read "Include a": want Include at the very beginning of a line`),
		},
		{
			"Include without a line end", "Include a", nil,
			list("1:9: error: no white space follows the name a, and Slurm reads on behind the line: want a line end, or white space before the comment"),
		},
		{
			"a comment at the name", "Include a#b c\n", nil,
			list("1:9: error: no white space follows the name a, and Slurm reads on behind the line: want a line end, or white space before the comment"),
		},
		{"a word as comment at the name", "Include a#b\n", nil, nil},
		{"Include=", "Include=a\n", list("1:9 Include=a"), nil},
	} {
		t.Run(c.about, func(t *testing.T) {
			file, findings := slurmconf.Parse("slurm.conf", c.text)
			assert.Equal(t, c.pairs, pairs(file))
			assert.Equal(t, c.findings, told(findings))
			assert.Equal(t, c.text, file.String(), "the text stays as it is")
		})
	}
}

func list(lines ...string) []string { return lines }

// pairs is what a file sets.
func pairs(f *slurmconf.File) []string {
	var found []string
	for _, l := range f.Lines {
		for _, p := range l.Pairs {
			at := p.Position()
			found = append(found, fmt.Sprintf("%d:%d %s=%s", at.Line, at.Column, p.Key, p.Value))
		}
	}
	return found
}

// told is findings without the file's name.
func told(findings slurmconf.Findings) []string {
	var found []string
	for _, f := range findings {
		found = append(found, strings.TrimPrefix(f.Error(), f.File+":"))
	}
	return found
}
