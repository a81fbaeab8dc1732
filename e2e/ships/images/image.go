package main

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// image is what an OCI archive holds.
type image struct {
	manifest v1.Manifest
	config   v1.Image
	// files are those that a container sees, by path without the slash before it.
	files map[string]*tar.Header
	// all are the paths in any layer: what a later one removes is still there to read.
	all map[string]bool
	// keys are the paths of private keys in any layer.
	keys []string
	// lax are the files of apt's configuration that have it take lists which are too old.
	lax map[*tar.Header]bool
	// compressed and whole are in bytes: what is pulled, and what is unpacked.
	compressed, whole int64
}

// layers are those that were read, because images share most of them.
type layers map[digest.Digest]*layer

// layer is what is known of a layer: its files in their order, the paths of private keys, and image.lax.
type layer struct {
	files []*tar.Header
	keys  []string
	lax   map[*tar.Header]bool
}

func newImage() *image {
	return &image{files: map[string]*tar.Header{}, all: map[string]bool{}, lax: map[*tar.Header]bool{}}
}

// openImage reads the archive of one image.
func (known layers) openImage(name string) (*image, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read an image: %w", err)
	}
	defer f.Close()
	a, err := index(f)
	if err != nil {
		return nil, fmt.Errorf("cannot read the image %s: %w", name, err)
	}
	img := newImage()
	if err := img.read(a, known); err != nil {
		return nil, fmt.Errorf("cannot read the image %s: %w", name, err)
	}
	return img, nil
}

// archive finds a file's content in an uncompressed archive by its name.
type archive map[string]*io.SectionReader

func index(f *os.File) (archive, error) {
	a := archive{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, err
		}
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		a[h.Name] = io.NewSectionReader(f, at, h.Size)
	}
}

func (a archive) blob(d v1.Descriptor) (io.Reader, error) {
	r, ok := a["blobs/"+d.Digest.Algorithm().String()+"/"+d.Digest.Encoded()]
	if !ok {
		return nil, fmt.Errorf("it has no blob %s", d.Digest)
	}
	return r, nil
}

func (a archive) decode(d v1.Descriptor, into any) error {
	r, err := a.blob(d)
	if err != nil {
		return err
	}
	return json.NewDecoder(r).Decode(into)
}

func (img *image) read(a archive, known layers) error {
	var all v1.Index
	if a[v1.ImageIndexFile] == nil {
		return fmt.Errorf("it has no %s", v1.ImageIndexFile)
	}
	if err := json.NewDecoder(a[v1.ImageIndexFile]).Decode(&all); err != nil {
		return err
	}
	if len(all.Manifests) != 1 {
		return fmt.Errorf("it has %d manifests, not one", len(all.Manifests))
	}
	if err := a.decode(all.Manifests[0], &img.manifest); err != nil {
		return err
	}
	if err := a.decode(img.manifest.Config, &img.config); err != nil {
		return err
	}
	for _, d := range img.manifest.Layers {
		img.compressed += d.Size
		l, err := known.read(a, d)
		if err != nil {
			return err
		}
		img.merge(l)
	}
	for _, h := range img.files {
		img.whole += h.Size
	}
	return nil
}

// merge puts a layer on those that the image has.
func (img *image) merge(l *layer) {
	img.keys = append(img.keys, l.keys...)
	for _, h := range l.files {
		img.add(h)
		if l.lax[h] {
			img.lax[h] = true
		}
	}
}

func (known layers) read(a archive, d v1.Descriptor) (*layer, error) {
	if l := known[d.Digest]; l != nil {
		return l, nil
	}
	packed, err := a.blob(d)
	if err != nil {
		return nil, err
	}
	plain, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	l := &layer{}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			known[d.Digest] = l
			return l, nil
		}
		if err != nil {
			return nil, err
		}
		if err := l.look(h, r); err != nil {
			return nil, err
		}
		l.files = append(l.files, h)
	}
}

// look finds private keys in PEM (RFC 7468) and OpenSSH's format, and what apt's configuration allows.
func (l *layer) look(h *tar.Header, content io.Reader) error {
	name := strings.Trim(path.Clean(h.Name), "/")
	text := bufio.NewReader(content)
	if name == "etc/apt/apt.conf" || path.Dir(name) == "etc/apt/apt.conf.d" {
		all, err := io.ReadAll(text)
		if err != nil {
			return err
		}
		if takesOldLists.Match(all) {
			if l.lax == nil {
				l.lax = map[*tar.Header]bool{}
			}
			l.lax[h] = true
		}
		return nil
	}
	first, err := bufio.NewReader(io.LimitReader(text, 64)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.HasPrefix(first, "-----BEGIN ") && strings.Contains(first, "PRIVATE KEY-----") {
		l.keys = append(l.keys, name)
	}
	return nil
}

// takesOldLists is an option of apt.conf(5), which has names in any case and several words for no.
var takesOldLists = regexp.MustCompile(`(?i)Check-Valid-Until(::\S+)?\s+"?(false|no|0|off|without|disable)\b`)

// add follows the image specification's whiteouts (layer.md).
func (img *image) add(h *tar.Header) {
	name := strings.Trim(path.Clean(h.Name), "/")
	dir, base := path.Split(name)
	gone, isWhiteout := strings.CutPrefix(base, ".wh.")
	if !isWhiteout {
		img.files[name], img.all[name] = h, true
		return
	}
	removed := dir + gone
	if base == ".wh..wh..opq" {
		removed = strings.TrimSuffix(dir, "/")
	}
	for name := range img.files {
		if name == removed && base != ".wh..wh..opq" || strings.HasPrefix(name, removed+"/") {
			delete(img.files, name)
		}
	}
}
