package process

import (
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

type emitted struct {
	level slog.Level
	text  string
}

// splitAt writes data in two parts and returns what is emitted.
func splitAt(data []byte, cut int) (lines []emitted) {
	s := splitter{emit: func(level slog.Level, text string) { lines = append(lines, emitted{level, text}) }}
	_, _ = s.Write(data[:cut])
	_, _ = s.Write(data[cut:])
	s.flush()
	return lines
}

func TestSplitter(t *testing.T) {
	long := strings.Repeat("a", maxLine)
	const info, failed = slog.LevelInfo, slog.LevelError
	for _, c := range []struct {
		name, data string
		want       []emitted
	}{
		{"nothing", "", nil},
		{"lines", "a\nerror: b\n", []emitted{{info, "a"}, {failed, "b"}}},
		{"no newline at the end", "a\nb", []emitted{{info, "a"}, {info, "b"}}},
		{"an empty line", "\n\n", []emitted{{info, ""}, {info, ""}}},
		{"CR LF", "a\r\nb\r\n", []emitted{{info, "a"}, {info, "b"}}},
		{"as long as can be", long + "\n", []emitted{{info, long}}},
		{"longer", long + "b\n", []emitted{{info, long}, {info, "b"}}},
		{"much longer, without newline", long + long + "b", []emitted{{info, long}, {info, long}, {info, "b"}}},
		{"the level of a long line's head", "error: " + long + "\nb\n", []emitted{{failed, long[7:]}, {failed, long[:7]}, {info, "b"}}},
		{"a rune is not cut", long[1:] + "é\n", []emitted{{info, long[1:]}, {info, "é"}}},
		{"NUL and what is not UTF-8", "a\x00b\xffc\n", []emitted{{info, "a\uFFFDb\uFFFDc"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, cut := range []int{0, len(c.data) / 2, len(c.data)} {
				assert.Equal(t, c.want, splitAt([]byte(c.data), cut))
			}
		})
	}
}

// What is emitted does not depend on how the pipe cuts it, and is harmless.
func FuzzSplitter(f *testing.F) {
	f.Add([]byte("slurmd: error: a\nb\r\nc\x00\xff"), 5, 0)
	f.Add([]byte("é\n"), 1, maxLine-1)
	f.Fuzz(func(t *testing.T, tail []byte, cut, padding int) {
		if padding < 0 || padding > 2*maxLine || cut < 0 || cut > len(tail) {
			t.Skip()
		}
		data := append([]byte(strings.Repeat("x", padding)), tail...)
		lines := splitAt(data, padding+cut)
		assert.Equal(t, splitAt(data, 0), lines)
		for _, line := range lines {
			assert.True(t, utf8.ValidString(line.text))
			assert.NotContains(t, line.text, "\x00")
			assert.LessOrEqual(t, len(line.text), 3*maxLine, "each bad byte becomes three")
		}
	})
}
