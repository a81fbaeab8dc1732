package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
)

// progress takes what `buildx bake --progress=plain` says. All of it goes to a file,
// the steps that are not in the cache to say, a line when they begin and one when they are done.
type progress struct {
	log     io.Writer
	say     func(format string, args ...any)
	partial []byte
	// waiting are steps that may yet turn out to be in the cache, running those that are not.
	waiting, running map[string]string
}

func newProgress(log io.Writer, say func(string, ...any)) *progress {
	return &progress{log: log, say: say, waiting: map[string]string{}, running: map[string]string{}}
}

var (
	// stepBegins: #31 [login-24-11 slurm 2/3] RUN …, or #27 [agent] exporting to …
	stepBegins = regexp.MustCompile(`^(#\d+) \[(\S+)(?: (\S+) (\d+)/(\d+))?\] (RUN|exporting)\b`)
	stepSays   = regexp.MustCompile(`^(#\d+) (CACHED|DONE (\S+)|ERROR|\d|exporting)`)
)

func (p *progress) Write(data []byte) (int, error) {
	p.partial = append(p.partial, data...)
	for {
		line, rest, whole := bytes.Cut(p.partial, []byte("\n"))
		if !whole {
			return p.log.Write(data)
		}
		p.line(string(line))
		p.partial = rest
	}
}

func (p *progress) line(line string) {
	if m := stepBegins.FindStringSubmatch(line); m != nil {
		step := fmt.Sprintf("%s: stage %s, step %s of %s", m[2], m[3], m[4], m[5])
		if m[6] == "exporting" {
			step = m[2] + ": writes the image"
		}
		if p.running[m[1]] == "" {
			p.waiting[m[1]] = step
		}
		return
	}
	m := stepSays.FindStringSubmatch(line)
	if m == nil {
		return
	}
	if step := p.waiting[m[1]]; step != "" && m[2] != "CACHED" {
		p.say("%s", step)
		p.running[m[1]] = step
	}
	delete(p.waiting, m[1])
	if step := p.running[m[1]]; step != "" && m[3] != "" {
		p.say("%s: done (%s)", step, m[3])
	}
}

// lastLines is the end of a log, for an error.
func lastLines(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], nil))
}
