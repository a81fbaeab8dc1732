// Package confset treats the files of a Slurm configuration as one set: read
// together, compared by content, put in place all at once, and kept.
package confset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Set is one configuration. It is never changed once it is made.
type Set struct {
	// Files are sorted by name.
	Files []File
	// Keys are the key files, of which no copy is made.
	Keys []Key
	// Hash is of the files' names, contents and modes, in hexadecimal; KeyHash is
	// the same of the keys.
	Hash, KeyHash string
}

// File is a configuration file.
type File struct {
	// Name is the path in the set, such as slurm.conf or prolog.d/10-quota.
	Name string
	Data []byte
	// Mode is the permissions.
	Mode fs.FileMode
	// Source is the path that it was read from, for people.
	Source string
}

// Key is a secret that a daemon wants beside its configuration. Target is where
// it is: a set in place has a link to it.
type Key struct {
	Name, Target string
	digest       [sha256.Size]byte
}

// Same says whether two sets, keys and all, are the same to Slurm.
func (s *Set) Same(other *Set) bool {
	return s == other || s != nil && other != nil && s.Hash == other.Hash && s.KeyHash == other.KeyHash
}

// File returns the file of a name.
func (s *Set) File(name string) (File, bool) {
	i := slices.IndexFunc(s.Files, func(f File) bool { return f.Name == name })
	if i < 0 {
		return File{}, false
	}
	return s.Files[i], true
}

// With returns the set with a file's contents replaced.
func (s *Set) With(name string, data []byte) *Set {
	files := slices.Clone(s.Files)
	for i := range files {
		if files[i].Name == name {
			files[i].Data = data
		}
	}
	return newSet(files, s.Keys)
}

// Add returns the set with another file.
func (s *Set) Add(file File) *Set { return newSet(append(slices.Clone(s.Files), file), s.Keys) }

// WithKeys returns the set's files with the keys of another: those of today,
// for files that were kept.
func (s *Set) WithKeys(other *Set) *Set { return newSet(s.Files, other.Keys) }

// Named gives a text that Slurm has written about a set at dir the names of the
// sources, where people edit; a file that is in none of them would be beside
// slurm.conf.
func (s *Set) Named(dir, text string) string {
	for _, f := range s.Files {
		text = strings.ReplaceAll(text, filepath.Join(dir, f.Name), f.Source)
	}
	if main, found := s.File(Main); found {
		text = strings.ReplaceAll(text, dir+"/", filepath.Dir(main.Source)+"/")
	}
	return text
}

func newSet(files []File, keys []Key) *Set {
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	h, k := newDigest(), newDigest()
	for _, f := range files {
		h.add([]byte(f.Name), f.Data, binary.BigEndian.AppendUint32(nil, uint32(f.Mode.Perm())))
	}
	for _, key := range keys {
		k.add([]byte(key.Name), key.digest[:])
	}
	return &Set{Files: files, Keys: keys, Hash: h.String(), KeyHash: k.String()}
}

// Digest is a hash over texts, each with its length, so that none can pass for
// a part of another.
func Digest(texts ...[]byte) string {
	d := newDigest()
	d.add(texts...)
	return d.String()
}

type digestOf struct{ sum []byte }

func newDigest() *digestOf { return &digestOf{} }

func (d *digestOf) add(texts ...[]byte) {
	h := sha256.New()
	_, _ = h.Write(d.sum)
	for _, text := range texts {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		_, _ = h.Write(text)
	}
	d.sum = h.Sum(nil)
}

// String is short enough to be read out, and long enough to be sure.
func (d *digestOf) String() string { return hex.EncodeToString(d.sum)[:min(32, 2*len(d.sum))] }

// IsKey says whether a file holds a secret by its name: auth/slurm's and JWT's
// keys, certificates' keys, and slurmdbd.conf with the database's password.
func IsKey(name string) bool {
	base := filepath.Base(name)
	return slices.Contains([]string{".key", ".jwks", ".pem", ".p12"}, filepath.Ext(base)) || base == "slurmdbd.conf"
}
