package slurmconf_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// Whatever the text: nothing of it is lost, positions are in it, and a text that
// is whole parses again to the same.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"ClusterName=a\nNodeName=n[1-2] CPUs=4 \\\n Feature=\"a b\" # c\n", "Include a\nKillWait+=\\\\5\\#6", "a=\"b c\" d=e\r\n", "\x00\\\n\"=\"",
		"required a.so b=c\ninclude *.conf\n",
	} {
		for i := range slurmconf.Kinds {
			f.Add(i, text)
		}
	}
	f.Fuzz(func(t *testing.T, kind int, text string) {
		name := string(slurmconf.Kinds[uint(kind)%uint(len(slurmconf.Kinds))])
		file, findings := slurmconf.Parse(name, text)
		assert.Equal(t, text, file.String())
		assert.LessOrEqual(t, len(findings), 202)
		for _, found := range findings {
			within(t, text, found.Position)
		}
		for _, l := range file.Lines {
			for _, p := range l.Pairs {
				within(t, text, p.Position())
				assert.NotEmpty(t, p.Key)
			}
		}
		again, _ := slurmconf.Parse(name, file.String())
		assert.Equal(t, pairs(file), pairs(again))
	})
}

// within: a position is that of a byte of the text, or of its end.
func within(t *testing.T, text string, at slurmconf.Position) {
	lines := strings.SplitAfter(text, "\n")
	if assert.LessOrEqual(t, at.Line, len(lines)) && at.Line > 0 {
		assert.LessOrEqual(t, at.Column, len(lines[at.Line-1])+1)
	}
}

// Whatever files include each other, reading ends, and tells of no file that it
// has not read.
func FuzzRead(f *testing.F) {
	f.Add("Include a\nClusterName=b\nInclude %c\n", "Include b\nNodeName=n\n", "Include slurm.conf\nInclude /etc/slurm/a\n")
	f.Add("NodeName=DEFAULT CPUs=2\nInclude a\n", "ClusterName=%c\nInclude %c\n", "Include ../slurm/../../a\n")
	f.Fuzz(func(t *testing.T, conf, a, b string) {
		set, findings := slurmconf.Read(machine(map[string]string{
			"etc/slurm/slurm.conf": conf, "etc/slurm/a": a, "etc/slurm/b": b, "etc/slurm/plugstack.conf": a,
		}))
		for _, found := range findings {
			assert.NotNil(t, set.File(found.File), found)
		}
		for l := range set.Conf(slurmconf.SlurmConf).Lines() {
			assert.NotNil(t, set.File(l.Position().File))
		}
		assert.Empty(t, slurmconf.Diff(set, set))
	})
}
