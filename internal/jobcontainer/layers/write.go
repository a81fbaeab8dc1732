package layers

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Writer writes the finished tree as one tar: its directories first, then each file once, then its hard links.
type Writer struct {
	out    *tar.Writer
	layers [][]*inode // that are left of each layer, by their places in it
}

// Begin writes the tree's directories, links and own files. After it, each layer is to be read again in its turn.
func (t *Tree) Begin(out io.Writer) (*Writer, error) {
	w := &Writer{out: tar.NewWriter(out), layers: make([][]*inode, t.layer)}
	if err := w.walk(t.root, ""); err != nil {
		return nil, err
	}
	for _, files := range w.layers {
		slices.SortFunc(files, func(a, b *inode) int { return a.index - b.index })
	}
	return w, nil
}

func (w *Writer) walk(n *node, name string) error {
	f := n.file
	switch {
	case n.children != nil:
		if name != "" { // squashfs has a root of its own
			if err := w.header(name+"/", f.Entry, tar.TypeDir, 0); err != nil {
				return err
			}
			name += "/"
		}
		for _, base := range slices.Sorted(maps.Keys(n.children)) {
			if err := w.walk(n.children[base], name+base); err != nil {
				return err
			}
		}
		return nil
	case f.layer == own:
		if err := w.header(name, f.Entry, tar.TypeReg, int64(len(f.text))); err != nil {
			return err
		}
		_, err := io.WriteString(w.out, f.text)
		return err
	case f.Kind == Symlink:
		return w.header(name, f.Entry, tar.TypeSymlink, 0)
	case f.Kind == FIFO:
		return w.header(name, f.Entry, tar.TypeFifo, 0)
	}
	if len(f.paths) == 0 {
		w.layers[f.layer] = append(w.layers[f.layer], f)
	}
	f.paths = append(f.paths, name)
	return nil
}

// Layer reads a layer again, by its number from 0, and writes the files that are left of it.
func (w *Writer) Layer(number int, layer io.Reader) error {
	files := w.layers[number]
	r := tar.NewReader(layer)
	for index := 0; len(files) > 0; index++ {
		h, err := r.Next()
		if err != nil {
			return fmt.Errorf("cannot read layer %d again: %w", number+1, err)
		}
		if index != files[0].index {
			continue
		}
		f := files[0]
		files = files[1:]
		if err := w.header(f.paths[0], f.Entry, tar.TypeReg, h.Size); err != nil {
			return err
		}
		if _, err := io.Copy(w.out, r); err != nil {
			return fmt.Errorf("cannot write %s: %w", f.paths[0], err)
		}
		for _, name := range f.paths[1:] {
			e := f.Entry
			e.Link, e.Attributes = f.paths[0], nil
			if err := w.header(name, e, tar.TypeLink, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close ends the tar.
func (w *Writer) Close() error { return w.out.Close() }

// header writes an entry as the user's own. What the container's user owns must be readable, and its directories
// writable, as enroot has them: there is no root who could read a file without it.
func (w *Writer) header(name string, e Entry, kind byte, size int64) error {
	h := &tar.Header{Typeflag: kind, Name: name, Linkname: e.Link, Size: size, Mode: e.Mode, ModTime: time.Unix(e.Time, 0)}
	switch kind {
	case tar.TypeDir:
		h.Mode |= 0o700
	case tar.TypeReg, tar.TypeLink:
		h.Mode |= 0o400
	case tar.TypeSymlink:
		h.Mode = 0o777
	}
	for i := 0; i+1 < len(e.Attributes); i += 2 {
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[xattr+e.Attributes[i]] = e.Attributes[i+1]
	}
	err := w.out.WriteHeader(h)
	if errors.Is(err, tar.ErrHeader) {
		return fmt.Errorf("%q cannot be written: %w", name, err)
	}
	return err
}
