package process

import (
	"log/slog"
	"regexp"
	"strings"
	"sync"
)

// LevelFatal is the level of a daemon's last words.
const LevelFatal = slog.LevelError + 4

// What Slurm puts in front of a message (src/common/log.c): on stderr "slurmd: error: ", in a file "[time] [12.0] error: ", and in the
// scheduler's log "sched: [time] ". The time is one of LogTimeFormat (slurm.conf(5)); a step's number is kept, it says something.
var (
	programPattern = pattern(`^(?:slurm[a-z]*|sackd)(?:-[\w.-]+)?: `)
	timePattern    = pattern(`^(?:sched: )?\[(?:\d{4}-\d\d-\d\dT[\d:.+Z-]+|[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d+)\] `)
	stepPattern    = pattern(`^\[\d+\.[\w+.]+\] `)
	levelPattern   = pattern(`^(?i:(fatal|(?:internal )?error|warning|verbose|info|debug[1-5]?): +)`)
)

// pattern is compiled with the first line: no daemon's start waits for it.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// parseLine takes one line of a Slurm daemon apart: its level, and its text without program, time and level.
// A line that says nothing about its level is information.
func parseLine(line string) (slog.Level, string) {
	line = line[len(programPattern().FindString(line)):]
	line = line[len(timePattern().FindString(line)):]
	number := stepPattern().FindString(line)
	line = line[len(number):]
	word := levelPattern().FindStringSubmatch(line)
	if word == nil {
		return slog.LevelInfo, number + line
	}
	return levelOf(word[1]), number + line[len(word[0]):]
}

func levelOf(word string) slog.Level {
	switch word = strings.ToLower(word); {
	case word == "fatal":
		return LevelFatal
	case strings.HasSuffix(word, "error"):
		return slog.LevelError
	case word == "warning":
		return slog.LevelWarn
	case strings.HasPrefix(word, "debug"):
		return slog.LevelDebug
	default:
		return slog.LevelInfo
	}
}
