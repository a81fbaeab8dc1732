package slurmconf

import (
	"errors"
	"fmt"
)

// These bound what one configuration may hold. Slurm has none, and ends where
// its stack or its file descriptors do. What is beyond them is an Error, because nobody
// has read it.
const (
	// MaxSetSize is that of all its files together, in bytes.
	MaxSetSize = 2 * MaxFileSize
	// MaxDepth is how deep Includes may be nested.
	MaxDepth = 500
	// MaxIncludes is how often one of Slurm's files may include another.
	MaxIncludes = 10000
	// MaxLines is how many lines one of Slurm's files may have in the end.
	MaxLines = 1 << 18
)

// Set is all configuration files of one directory, and what they include. One
// that nobody edits can be used by several goroutines.
type Set struct {
	// Files are all that were read, each once, in the order of reading.
	Files []*File
	confs map[Kind]*Conf
}

// Conf is one of Slurm's files with its Includes, nil if the directory has none.
// A nil Conf is empty.
func (s *Set) Conf(kind Kind) *Conf { return s.confs[kind] }

// File is the file that positions call name, nil if there is none.
func (s *Set) File(name string) *File {
	for _, f := range s.Files {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// Read reads what of kinds is there, all of [Kinds] if none are named, and
// follows Includes. Of the kinds, none has to be there but slurm.conf or, if that
// is not asked for, the first.
func Read(from Source, kinds ...Kind) (*Set, Findings) {
	if len(kinds) == 0 {
		kinds = Kinds
	}
	r := reader{Source: from, set: &Set{confs: map[Kind]*Conf{}}, files: map[fileID]*File{}}
	for i, kind := range kinds {
		r.readConf(kind, i == 0)
	}
	r.found.Sort()
	r.set.Hide(r.found)
	return r.set, r.found
}

// reader reads files, each once, and follows Includes.
type reader struct {
	Source
	set   *Set
	files map[fileID]*File
	size  int64
	found Findings
}

// fileID: one file can be included from files of different grammars.
type fileID struct {
	path string
	kind Kind
}

// readConf reads one of Slurm's files.
func (r *reader) readConf(kind Kind, needed bool) {
	absolute := r.absolute(r.nameOf(kind))
	file, err := r.readFile(absolute, kind)
	switch {
	case errors.Is(err, errMissing) && !needed:
		return
	case err != nil:
		r.fail(Position{File: r.relative(absolute)}, "read", "cannot read "+absolute+": "+err.Error(), "")
		return
	}
	w := walk{reader: r, conf: &Conf{File: file, byKey: map[string][]Record{}}, defaults: map[string]*Defaults{}}
	w.addFile(file, absolute)
	r.found = append(r.found, w.findings...)
	r.set.confs[kind] = w.conf
}

// readFile reads and parses a file that was not read before.
func (r *reader) readFile(absolute string, kind Kind) (*File, error) {
	id := fileID{absolute, kind}
	if file := r.files[id]; file != nil {
		return file, nil
	}
	text, err := r.read(absolute, min(MaxFileSize, MaxSetSize-r.size))
	if err != nil {
		return nil, err
	}
	r.size += int64(len(text))
	file, findings := parse(r.relative(absolute), kind, text)
	r.found = append(r.found, findings...)
	r.files[id] = file
	r.set.Files = append(r.set.Files, file)
	return file, nil
}

func (r *reader) fail(at Position, rule, what, want string) {
	r.found = append(r.found, Finding{at, Error, rule, what, want})
}

// walk follows the Includes of one Conf.
type walk struct {
	*reader
	notes
	conf     *Conf
	defaults map[string]*Defaults
	within   []string
	includes int
}

// addFile adds the lines of a file, in Slurm's order.
func (w *walk) addFile(f *File, absolute string) {
	w.within = append(w.within, absolute)
	defer func() { w.within = w.within[:len(w.within)-1] }()
	for _, l := range f.Lines {
		switch {
		case l.Include != "":
			w.followInclude(l)
		case len(l.Pairs) == 0:
		case len(w.conf.lines) == MaxLines:
			w.add(Finding{
				l.Position(), Error, "size", "the rest is not read",
				fmt.Sprintf("at most %d lines in a file with what it includes", MaxLines),
			})
			return
		default:
			w.conf.add(l, w.defaults)
		}
	}
}
