package slurmconf_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/slurmconf"
)

func TestBounds(t *testing.T) {
	for about, c := range map[string]struct{ text, last string }{
		"size of a file":   {strings.Repeat("#", slurmconf.MaxFileSize+1), "slurm.conf: error: 4194305 bytes: want at most 4194304"},
		"lines of a file":  {strings.Repeat("\n", 1<<17+1), "slurm.conf: error: more than 131072 lines: want fewer: nodes can be named as n[1-100]"},
		"values of a line": {"NodeName=a" + strings.Repeat(" b=c", 1000), "slurm.conf:1:4008: error: more than 1000 values on a line: want fewer"},
		"errors":           {strings.Repeat("a\n", 1000), "slurm.conf:101:1: error: more is wrong from here on, and is not listed"},
	} {
		_, findings := slurmconf.Parse("slurm.conf", c.text)
		require.Error(t, findings.Err(), about)
		assert.Equal(t, c.last, findings[len(findings)-1].Error(), about)
	}
	_, findings := slurmconf.Parse("slurm.conf", strings.Repeat("a+=1\n", 1000))
	assert.NoError(t, findings.Err(), "a file that Slurm takes is not refused for many warnings")
	assert.Equal(t, "slurm.conf:101:2: warning: more is wrong from here on, and is not listed", findings.Error()[strings.LastIndex(findings.Error(), "\n")+1:])
}

func TestBoundsOfASet(t *testing.T) {
	half := strings.Repeat("#", slurmconf.MaxFileSize*3/4)
	_, findings := slurmconf.Read(machine(map[string]string{"etc/slurm/slurm.conf": "Include a\nInclude b\nInclude c\n", "etc/slurm/a": half, "etc/slurm/b": half, "etc/slurm/c": half}))
	assert.ErrorContains(t, findings.Err(), "slurm.conf:3: error: Include c of /etc/slurm/c: has 3145728 bytes, want at most")

	many := strings.Repeat("KillWait=1\n", 100000)
	set, findings := slurmconf.Read(machine(map[string]string{"etc/slurm/slurm.conf": strings.Repeat("Include a\n", 10), "etc/slurm/a": many}))
	assert.ErrorContains(t, findings.Err(), "error: the rest is not read: want at most 262144 lines in a file with what it includes")
	assert.Len(t, set.Conf(slurmconf.SlurmConf).All("KillWait"), slurmconf.MaxLines)
}

func TestPlugstack(t *testing.T) {
	for text, want := range map[string]string{
		"required a.so b # c\n\n#\n": "",
		"Required a.so\n":            `plugstack.conf:1:1: warning: Slurm ignores this line, which begins with "Required": want required, optional or include, in small letters`,
		"\toptional\n":               `plugstack.conf:1:2: warning: Slurm ignores "optional" without a file: want the path of one`,
		"optional a.so\r\n":          "plugstack.conf:1:14: warning: a carriage return, which Slurm takes for part of the last word: want line ends without it",
		"optional a.so " + strings.Repeat("b", 4096) + "\n": "plugstack.conf:1:4097: warning: Slurm reads the rest as another line: want lines of less than 4096 bytes",
	} {
		file, findings := slurmconf.Parse("plugstack.conf", text)
		assert.Equal(t, want, findings.Error())
		assert.Equal(t, text, file.String())
	}
	set, findings := slurmconf.Read(machine(map[string]string{"etc/slurm/slurm.conf": "", "etc/slurm/plugstack.conf": "include [\ninclude none/*\n"}))
	assert.EqualError(t, findings.Err(), "plugstack.conf:1: error: Include [ is no pattern: syntax error in pattern")
	assert.NotNil(t, set.Conf(slurmconf.PlugstackConf))
}

// What "slurmlet check -o json" and its like are made of.
func TestFindingAsJSON(t *testing.T) {
	_, findings := slurmconf.Parse("slurm.conf", "\nKillWait=\n")
	text, err := json.Marshal(findings)
	require.NoError(t, err)
	assert.JSONEq(t, `[{"file": "slurm.conf", "line": 2, "column": 1, "severity": "error", "rule": "syntax", "what": "KillWait has no value", "want": "one, or \"\" for an empty value"}]`, string(text))
}

func TestKindOf(t *testing.T) {
	assert.Equal(t, slurmconf.GresConf, slurmconf.KindOf("/etc/slurm/gres.conf"))
	assert.Equal(t, slurmconf.SlurmConf, slurmconf.KindOf("conf.d/nodes"))
}

// A record over 1,000 lines of text, full of escapes.
func TestPositionsInALongLine(t *testing.T) {
	text := "NodeName=a"
	for i := range 999 {
		text += " \\\n k" + strconv.Itoa(i) + "=\"v\\\\" + strings.Repeat("\\x", 100) + "\""
	}
	file, findings := slurmconf.Parse("slurm.conf", text)
	assert.Empty(t, findings)
	require.Len(t, file.Lines, 1)
	last := file.Lines[0].Pairs[999]
	assert.Equal(t, "slurm.conf:1000:7", last.Position().String())
	assert.Equal(t, file.Lines[0], last.Line())
}
