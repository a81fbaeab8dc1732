package slurmconf

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// followInclude reads what a line includes.
func (w *walk) followInclude(l *Line) {
	for _, name := range w.named(l) {
		w.includes++
		switch {
		case slices.Contains(w.within, name):
			w.note(Error, l, "Include %s includes itself: %s", l.Include, strings.Join(append(w.within, name), " → "))
		case w.includes > MaxIncludes:
			if w.includes == MaxIncludes+1 {
				w.note(Error, l, "Include %s is one of more than %d, and the rest is not read", l.Include, MaxIncludes)
			}
		case len(w.within) > MaxDepth:
			w.note(Error, l, "Include %s is nested deeper than %d", l.Include, MaxDepth)
		default:
			w.readIncluded(l, name)
		}
	}
}

func (w *walk) readIncluded(l *Line, name string) {
	file, err := w.readFile(name, l.of.Kind)
	if meant := path.Clean(l.Include); errors.Is(err, errMissing) && path.IsAbs(meant) && meant != name &&
		!slices.Contains(w.within, meant) {
		if other, otherErr := w.readFile(meant, l.of.Kind); otherErr == nil {
			file, name, err = other, meant, nil // It is there already, where the others will be.
		}
	}
	switch {
	case errors.Is(err, errDirectory):
		w.note(Warning, l, "Include %s of %s: %v", l.Include, name, err)
	case err != nil:
		w.note(Error, l, "Include %s of %s: %v", l.Include, name, err)
	default:
		w.addFile(file, name)
	}
}

// note notes what is wrong with an Include, once for a file that is itself
// included several times.
func (w *walk) note(severity Severity, l *Line, format string, args ...any) {
	f := Finding{l.Position(), severity, "include", fmt.Sprintf(format, args...), ""}
	if !slices.Contains(w.findings, f) {
		w.add(f)
	}
}

// named is the files that a line includes, with absolute paths.
func (w *walk) named(l *Line) []string {
	if l.of.Kind == PlugstackConf {
		return w.matching(l)
	}
	name, ok := w.expand(l)
	if !ok {
		return nil
	}
	return []string{w.absolute(name)}
}

// expand puts in ClusterName, as it is at this point, for %c.
func (w *walk) expand(l *Line) (string, bool) {
	if !strings.Contains(l.Include, "%c") {
		return l.Include, true
	}
	cluster, ok := w.conf.Get("ClusterName")
	if !ok || strings.Contains(cluster.Value, "%c") {
		w.note(Error, l, "Include %s has %%c for ClusterName: want ClusterName above it, in the same file or one that this includes",
			l.Include)
		return "", false
	}
	return strings.ReplaceAll(l.Include, "%c", strings.ToLower(cluster.Value)), true
}

// matching is what a pattern of plugstack.conf matches, relative to the file in
// which it stands. No match is none.
func (w *walk) matching(l *Line) []string {
	pattern := l.Include
	if !path.IsAbs(pattern) {
		pattern = path.Join(path.Dir(w.within[len(w.within)-1]), pattern)
	}
	names, err := w.glob(w.absolute(pattern))
	if err != nil {
		w.note(Error, l, "Include %s is no pattern: %v", l.Include, err)
	}
	return names
}
