// Package layers makes one file system of an image's layers (https://github.com/opencontainers/image-spec, layer.md)
// without unpacking any of them: it reads what each layer has, finds out what is left of it in the image, and writes
// that as one tar. Nothing of a layer ever touches a file system, so no path, link or device of it leads anywhere.
package layers

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Entry is what a layer's tar says of one path.
type Entry struct {
	// Name is the cleaned path below the root, "" for the root itself.
	Name string
	// Link is what a symbolic link says, or the cleaned path that a hard link leads to.
	Link string
	Kind Kind
	// Mode has the permissions and the bits setuid, setgid and sticky.
	Mode int64
	// Time is in seconds since 1970.
	Time int64
	// Attributes are extended ones, as name and value by turns.
	Attributes []string
}

// Kind says what an entry is.
type Kind byte

// The kinds of entries. Device is for whatever a user can make none of; Whiteout and Opaque take away what lower layers
// have: a path, or all that is in a directory.
const (
	Directory Kind = iota
	Regular
	Symlink
	Hardlink
	FIFO
	Device
	Whiteout
	Opaque
)

// The names that mean a whiteout. Others that begin like the second one are AUFS' own, and no part of the image.
const (
	whiteout = ".wh."
	aufs     = ".wh..wh."
	opaque   = ".wh..wh..opq"
)

// Linux knows no longer name in a path, and no longer path.
const (
	longest     = 255
	longestPath = 4095
)

// Read lists a layer's entries. Their places in the list are those that Write counts by.
func Read(layer io.Reader) ([]Entry, error) {
	var all []Entry
	for r := tar.NewReader(layer); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the layer's tar: %w", err)
		}
		e, err := entryOf(h)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
}

// clean is a path below the root, whatever the tar says: what leads above the root leads to it.
func clean(name string) string { return path.Clean("/" + name)[1:] }

func entryOf(h *tar.Header) (Entry, error) {
	e := Entry{Name: clean(h.Name), Mode: h.Mode & 0o7777, Time: max(h.ModTime.Unix(), 0)}
	if len(e.Name) > longestPath {
		return Entry{}, fmt.Errorf("the layer has a path of %d characters: %.40s…", len(e.Name), e.Name)
	}
	for part := range strings.SplitSeq(e.Name, "/") {
		if len(part) > longest {
			return Entry{}, fmt.Errorf("the layer has a name of %d characters: %.40s…", len(part), part)
		}
	}
	dir, base := path.Split(e.Name)
	switch {
	case base == opaque:
		return Entry{Name: strings.TrimSuffix(dir, "/"), Kind: Opaque}, nil
	case strings.Contains("/"+e.Name, "/"+aufs), base == whiteout+".", base == whiteout+"..":
		e.Kind = Device // left out without a word
		e.Name = ""
		return e, nil
	case strings.HasPrefix(base, whiteout) && len(base) > len(whiteout):
		return Entry{Name: clean(dir + base[len(whiteout):]), Kind: Whiteout}, nil
	}
	switch h.Typeflag {
	case tar.TypeDir:
		e.Kind = Directory
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont, '\x00':
		e.Kind = Regular
	case tar.TypeSymlink:
		e.Kind, e.Link = Symlink, h.Linkname
		if e.Link == "" || len(e.Link) > 4095 || strings.ContainsRune(e.Link, 0) {
			return Entry{}, fmt.Errorf("the layer's link %s leads to no path", e.Name)
		}
	case tar.TypeLink:
		e.Kind, e.Link = Hardlink, clean(h.Linkname)
	case tar.TypeFifo:
		e.Kind = FIFO
	default:
		e.Kind = Device
	}
	if e.Kind == Regular || e.Kind == Directory {
		e.Attributes = attributes(h.PAXRecords)
	}
	return e, nil
}

const xattr = "SCHILY.xattr."

// attributes are a file's own, of users. Those of the system give rights, which a container has none of, and overlay's
// would have it look for a file elsewhere.
func attributes(records map[string]string) []string {
	var all []string
	for key, value := range records {
		if name, is := strings.CutPrefix(key, xattr); is && strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.") {
			all = append(all, name+"\x00"+value)
		}
	}
	slices.Sort(all)
	var turns []string
	for _, pair := range all {
		name, value, _ := strings.Cut(pair, "\x00")
		turns = append(turns, name, value)
	}
	return turns
}
