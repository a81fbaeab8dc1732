package slurmconf_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/slurmconf"
)

func TestReplace(t *testing.T) {
	for _, c := range []struct {
		about, text, key, value, want string
	}{
		{"the value only", "# a\n  KillWait \t= 5   # seconds\nProlog=x\n", "KillWait", "6", "# a\n  KillWait \t= 6   # seconds\nProlog=x\n"},
		{"line ends stay", "KillWait=5\r\nProlog=x", "Prolog", "y", "KillWait=5\r\nProlog=y"},
		{"white space is quoted", "Prolog=x #c\n", "Prolog", "a b", "Prolog=\"a b\" #c\n"},
		{"quotes go", "Prolog=\"a b\"\n", "Prolog", "c", "Prolog=c\n"},
		{"nothing is quoted", "Prolog=x\n", "Prolog", "", "Prolog=\"\"\n"},
		{"# and \\ are escaped", "Prolog=x\n", "Prolog", `a\b#c`, "Prolog=a\\\\b\\#c\n"},
		{"a quotation mark", "Prolog=x\n", "Prolog", `a"b`, "Prolog=a\"b\n"},
		{"one of a record", "NodeName=n[1-2] CPUs=4 \\\n  Gres=gpu:2 Feature=\"a b\" # c\n", "Gres", "gpu:4", "NodeName=n[1-2] CPUs=4 \\\n  Gres=gpu:4 Feature=\"a b\" # c\n"},
		{"a value over two lines", "TaskPlugin=task/cgroup,\\\ntask/affinity # c\nKillWait=1\n", "TaskPlugin", "task/cgroup", "TaskPlugin=task/cgroup # c\nKillWait=1\n"},
		{"an escaped value", "MailProg=a\\#b\\\\c\n", "MailProg", "d", "MailProg=d\n"},
	} {
		t.Run(c.about, func(t *testing.T) {
			file, _ := slurmconf.Parse("slurm.conf", c.text)
			pair := get(t, file, c.key)
			require.NoError(t, pair.Replace(c.value))
			assert.Equal(t, c.want, file.String())
			assert.Equal(t, c.value, get(t, file, c.key).Value)

			again, findings := slurmconf.Parse("slurm.conf", file.String())
			assert.Empty(t, findings)
			assert.Equal(t, pairs(again), pairs(file), "as if it had been read anew")
			if c.value != "" {
				assert.Error(t, pair.Replace("z"), "the pair is of a line that was edited")
			}
		})
	}
}

// get is the last pair with key in a file.
func get(t *testing.T, f *slurmconf.File, key string) slurmconf.Pair {
	t.Helper()
	var found slurmconf.Pair
	for _, l := range f.Lines {
		if p, ok := l.Get(key); ok {
			found = p
		}
	}
	require.NotEmpty(t, found.Key)
	return found
}

func TestWhatCannotBeWritten(t *testing.T) {
	for value, want := range map[string]string{
		"a\nb":  `cannot set Prolog: "a\nb" cannot be written: want no line ends and no NUL`,
		"\x00":  `cannot set Prolog: "\x00" cannot be written: want no line ends and no NUL`,
		`a "b"`: `cannot set Prolog: "a \"b\"" cannot be written: want no quotation mark beside white space`,
		`"a"`:   `cannot set Prolog: Slurm would not read "\"a\"" as its value`,
	} {
		file, _ := slurmconf.Parse("slurm.conf", "Prolog=x\n")
		assert.EqualError(t, get(t, file, "Prolog").Replace(value), want)
		assert.Error(t, file.Append("", slurmconf.Setting{Key: "Prolog", Value: value}))
		assert.Equal(t, "Prolog=x\n", file.String())
	}
}

func TestAppend(t *testing.T) {
	node := []slurmconf.Setting{{"NodeName", "a"}, {"CPUs", "4"}, {"Reason", "no power"}}
	for _, c := range []struct {
		about, text, comment string
		settings             []slurmconf.Setting
		want                 string
	}{
		{"to nothing", "", "", node, "NodeName=a CPUs=4 Reason=\"no power\"\n"},
		{"with a comment", "KillWait=5\n", "one\n\ntwo\\", node[:1], "KillWait=5\n# one\n#\n# two\nNodeName=a\n"},
		{"behind a line without end", "KillWait=5", "", node[:1], "KillWait=5\nNodeName=a\n"},
		{"behind a line that goes on", "KillWait=5 \\\n", "", node[:1], "KillWait=5 \\\n\nNodeName=a\n"},
		{"behind a line that goes on at the end", "KillWait=5\\", "", node[:1], "KillWait=5\\\n\nNodeName=a\n"},
		{"behind a comment that goes on", "# five \\\n", "", node[:1], "# five \\\nNodeName=a\n"},
		{"to plugstack.conf", "required a.so\n", "b", nil, "required a.so\n# b\n\n"},
	} {
		t.Run(c.about, func(t *testing.T) {
			name := "slurm.conf"
			if c.settings == nil {
				name = "plugstack.conf"
			}
			file, _ := slurmconf.Parse(name, c.text)
			require.NoError(t, file.Append(c.comment, c.settings...))
			assert.Equal(t, c.want, file.String())
			again, _ := slurmconf.Parse(name, file.String())
			assert.Equal(t, pairs(again), pairs(file))
		})
	}
	file, _ := slurmconf.Parse("slurm.conf", "a")
	assert.Error(t, file.Append("", slurmconf.Setting{"Kill Wait", "5"}))
	assert.Error(t, file.Append("", slurmconf.Setting{"KillWait", "5"}, slurmconf.Setting{"SlurmdPort", "6"}), "no record")
	assert.Equal(t, "a", file.String())
}

func TestRemove(t *testing.T) {
	file, _ := slurmconf.Parse("slurm.conf", "KillWait=5\nProlog=\\\nx\nEpilog=y\n")
	line := file.Lines[1]
	assert.True(t, file.Remove(line))
	assert.False(t, file.Remove(line))
	assert.Equal(t, "KillWait=5\nEpilog=y\n", file.String())
	assert.Equal(t, []string{"1:10 KillWait=5", "2:8 Epilog=y"}, pairs(file))
}

// Whatever is written is read again.
func FuzzReplace(f *testing.F) {
	f.Add("Prolog=x\nNodeName=a CPUs=4 \\\n Feature=\"a b\" # c", 2, "c d")
	f.Add("Prolog=x\\\ny", 0, `\"#`)
	f.Fuzz(func(t *testing.T, text string, which int, value string) {
		file, _ := slurmconf.Parse("slurm.conf", text)
		var all []slurmconf.Pair
		for _, l := range file.Lines {
			all = append(all, l.Pairs...)
		}
		if len(all) == 0 {
			return
		}
		pair := all[uint(which)%uint(len(all))]
		before := file.String()
		if err := pair.Replace(value); err != nil {
			assert.Equal(t, before, file.String())
			return
		}
		again, _ := slurmconf.Parse("slurm.conf", file.String())
		assert.Equal(t, pairs(again), pairs(file))
		assert.Len(t, pairs(file), len(all))
	})
}
