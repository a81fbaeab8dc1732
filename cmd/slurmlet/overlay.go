package main

import (
	"io/fs"
	"path"
	"strings"
	"time"
)

// overlay is a file system with some texts over it, by their paths.
type overlay struct {
	fs.FS // nil where there is nothing else
	texts map[string]string
}

func (o overlay) Open(name string) (fs.File, error) {
	if text, ok := o.texts[name]; ok {
		return &textFile{strings.NewReader(text), textInfo{path.Base(name), int64(len(text))}}, nil
	}
	if o.FS == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return o.FS.Open(name)
}

type textFile struct {
	*strings.Reader
	info textInfo
}

func (f *textFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *textFile) Close() error               { return nil }

type textInfo struct {
	name string
	size int64
}

func (i textInfo) Name() string       { return i.name }
func (i textInfo) Size() int64        { return i.size }
func (i textInfo) Mode() fs.FileMode  { return 0o444 }
func (i textInfo) ModTime() time.Time { return time.Time{} }
func (i textInfo) IsDir() bool        { return false }
func (i textInfo) Sys() any           { return nil }
