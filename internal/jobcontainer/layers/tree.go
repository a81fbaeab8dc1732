package layers

import (
	"fmt"
	"path"
	"strings"
)

// Tree is the image's file system as far as its layers have been added. It has no file's contents.
type Tree struct {
	root *node
	// layer is the number of the layer that is being added.
	layer int
	// Devices counts what is left out, because no user can make it.
	Devices int
}

// node is a path. Several paths share a file where they are hard links of it.
type node struct {
	file     *inode
	children map[string]*node // nil: no directory
	layer    int              // that has named it last
}

// inode is what a path leads to. Its contents are those of an entry of a layer, or text.
type inode struct {
	Entry
	layer, index int
	text         string
	paths        []string // of the finished tree
}

// own is the layer of files that no layer of the image has.
const own = -1

// New returns a file system with nothing but a root.
func New() *Tree { return &Tree{root: newDirectory(0)} }

func newDirectory(layer int) *node {
	return &node{file: &inode{Entry: Entry{Kind: Directory, Mode: 0o755}}, children: map[string]*node{}, layer: layer}
}

// Add adds the next layer on top of all before.
func (t *Tree) Add(entries []Entry) error {
	t.layer++
	// A whiteout is of lower layers, wherever it stands in its own.
	for _, e := range entries {
		switch e.Kind {
		case Whiteout:
			if dir, base, err := t.parent(e.Name, false); err == nil && dir != nil {
				delete(dir.children, base)
			}
		case Opaque:
			if n, err := t.at(e.Name, false); err == nil && n != nil && n.children != nil {
				n.children = map[string]*node{}
			}
		}
	}
	for i, e := range entries {
		if err := t.add(e, i); err != nil {
			return fmt.Errorf("layer %d: %w", t.layer, err)
		}
	}
	return nil
}

func (t *Tree) add(e Entry, index int) error {
	inDev := strings.HasPrefix(e.Name, "dev/") // the node's own /dev is mounted there
	switch {
	case e.Kind == Device:
		if e.Name != "" && !inDev {
			t.Devices++
		}
		return nil
	case e.Kind == Whiteout, e.Kind == Opaque, inDev:
		return nil
	case e.Name == "":
		if e.Kind != Directory {
			return fmt.Errorf("its root is no directory")
		}
		t.root.file = &inode{Entry: e}
		return nil
	}
	dir, base, err := t.parent(e.Name, true)
	if err != nil {
		return err
	}
	before := dir.children[base]
	switch {
	case e.Kind == Hardlink:
		to, err := t.linked(e.Link)
		if err != nil {
			return fmt.Errorf("the hard link %s leads to %s, %w", e.Name, e.Link, err)
		}
		dir.children[base] = &node{file: to.file, layer: t.layer}
	case e.Kind == Directory && before != nil && before.children != nil:
		before.file, before.layer = &inode{Entry: e}, t.layer
	case e.Kind == Directory:
		n := newDirectory(t.layer)
		n.file.Entry = e
		dir.children[base] = n
	default:
		dir.children[base] = &node{file: &inode{Entry: e, layer: t.layer - 1, index: index}, layer: t.layer}
	}
	return nil
}

// linked finds what a hard link leads to. It follows no link at the path's end.
func (t *Tree) linked(name string) (*node, error) {
	dir, base, err := t.parent(name, false)
	switch {
	case err != nil:
		return nil, err
	case dir == nil || dir.children[base] == nil:
		return nil, fmt.Errorf("which is in no layer so far")
	case dir.children[base].children != nil:
		return nil, fmt.Errorf("which is a directory")
	}
	return dir.children[base], nil
}

// Write adds a file with a text, in place of what is there.
func (t *Tree) Write(name, text string, mode int64) error {
	dir, base, err := t.parent(name, true)
	if err == nil {
		dir.children[base] = &node{file: &inode{Entry: Entry{Kind: Regular, Mode: mode}, layer: own, text: text}}
	}
	return err
}

// Mkdir adds a directory where there is nothing. A path that leads into a file is left alone.
func (t *Tree) Mkdir(name string) {
	_, _ = t.at(clean(name), true)
}

// most bounds the links that a path goes through, as Linux does.
const most = 40

// parent finds the directory of a path's last name, through the links of the image, which never lead above its root.
// It makes what is missing where create says so, and otherwise returns nil.
func (t *Tree) parent(name string, create bool) (*node, string, error) {
	dir, base := path.Split(name)
	n, err := t.at(strings.TrimSuffix(dir, "/"), create)
	if n != nil && n.children == nil && err == nil {
		err = fmt.Errorf("%s is in %s, which is no directory", name, dir)
	}
	if err != nil {
		return nil, "", err
	}
	return n, base, nil
}

func (t *Tree) at(name string, create bool) (*node, error) {
	var stack []*node // the directories from the root to here
	here, links := t.root, 0
	rest := strings.Split(name, "/")
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if part == "" || part == "." {
			continue
		}
		if part == ".." {
			if len(stack) > 0 {
				here, stack = stack[len(stack)-1], stack[:len(stack)-1]
			}
			continue
		}
		if here.children == nil {
			return nil, fmt.Errorf("%s leads through a file", name)
		}
		next := here.children[part]
		if next == nil {
			if !create {
				return nil, nil
			}
			next = newDirectory(t.layer)
			here.children[part] = next
		}
		if next.file.Kind == Symlink {
			if links++; links > most {
				return nil, fmt.Errorf("%s leads through more than %d links", name, most)
			}
			if strings.HasPrefix(next.file.Link, "/") {
				here, stack = t.root, nil
			}
			rest = append(strings.Split(next.file.Link, "/"), rest...)
			continue
		}
		stack, here = append(stack, here), next
	}
	return here, nil
}

// Lookup returns the path's entry, through links; false: there is none.
func (t *Tree) Lookup(name string) (Entry, bool) {
	n, err := t.at(clean(name), false)
	if err != nil || n == nil {
		return Entry{}, false
	}
	return n.file.Entry, true
}
