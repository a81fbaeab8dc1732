package importer

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// blobs has the files of an OCI layout (https://github.com/opencontainers/image-spec, image-layout.md).
type blobs interface {
	// open opens a file by its path in the layout, and says how long it is.
	open(name string) (io.ReadCloser, int64, error)
}

// directory is a layout's.
type directory string

func (d directory) open(name string) (io.ReadCloser, int64, error) {
	f, err := os.Open(filepath.Join(string(d), name))
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", f.Name())
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// packed is a layout as one tar, as podman and skopeo write it. Nothing of it is unpacked.
type packed struct {
	file  io.ReaderAt
	parts map[string]part
}

type part struct{ offset, size int64 }

// mostParts bounds the files of a tar that is listed, and mostSmall the manifests, indexes and configurations of images.
const (
	mostParts = 100_000
	mostSmall = 8 << 20
)

type seekable interface {
	io.ReadSeeker
	io.ReaderAt
}

// listPacked finds the files in a tar. The file stays open for as long as the process lives.
func listPacked(file seekable) (packed, error) {
	p := packed{file, map[string]part{}}
	size, err := file.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return packed{}, err
	}
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return p, nil
		}
		if err != nil {
			return packed{}, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		// archive/tar reads no further than an entry's header
		offset, err := file.Seek(0, io.SeekCurrent)
		if err != nil {
			return packed{}, err
		}
		if h.Size > size-offset {
			return packed{}, fmt.Errorf("%s is cut off", h.Name)
		}
		if len(p.parts) == mostParts {
			return packed{}, fmt.Errorf("it has more than %d files", mostParts)
		}
		p.parts[path.Clean("/" + h.Name)[1:]] = part{offset, h.Size}
	}
}

func (p packed) open(name string) (io.ReadCloser, int64, error) {
	at, is := p.parts[name]
	if !is {
		return nil, 0, fmt.Errorf("it has no %s", name)
	}
	return io.NopCloser(io.NewSectionReader(p.file, at.offset, at.size)), at.size, nil
}

func readSmall(from blobs, name string) ([]byte, error) {
	r, size, err := from.open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size > mostSmall {
		return nil, fmt.Errorf("%s has %d bytes, and at most %d are read", name, size, mostSmall)
	}
	return io.ReadAll(io.LimitReader(r, mostSmall))
}

func nameOf(h v1.Hash) string { return path.Join("blobs", h.Algorithm, h.Hex) }

// readDigest reads a file of JSON, and compares its digest: so no index leads back to itself.
func readDigest(from blobs, what string, h v1.Hash) ([]byte, error) {
	raw, err := readSmall(from, nameOf(h))
	if err == nil {
		err = same(what, raw, h)
	}
	return raw, err
}

// layoutIndex is an index of images in a layout.
type layoutIndex struct {
	from blobs
	raw  []byte
}

func openLayoutIndex(from blobs) (layoutIndex, error) {
	raw, err := readSmall(from, "index.json")
	return layoutIndex{from, raw}, err
}

func (i layoutIndex) MediaType() (types.MediaType, error) { return types.OCIImageIndex, nil }

func (i layoutIndex) Digest() (v1.Hash, error) {
	h, _, err := v1.SHA256(bytes.NewReader(i.raw))
	return h, err
}

func (i layoutIndex) Size() (int64, error) { return int64(len(i.raw)), nil }

func (i layoutIndex) RawManifest() ([]byte, error) { return i.raw, nil }

func (i layoutIndex) IndexManifest() (*v1.IndexManifest, error) {
	var m v1.IndexManifest
	if err := json.Unmarshal(i.raw, &m); err != nil {
		return nil, fmt.Errorf("cannot read the index: %w", err)
	}
	return &m, nil
}

func (i layoutIndex) ImageIndex(h v1.Hash) (v1.ImageIndex, error) {
	raw, err := readDigest(i.from, "index", h)
	return layoutIndex{i.from, raw}, err
}

func (i layoutIndex) Image(h v1.Hash) (v1.Image, error) {
	raw, err := readDigest(i.from, "manifest", h)
	if err != nil {
		return nil, err
	}
	var m v1.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("cannot read the manifest: %w", err)
	}
	return partial.CompressedToImage(layoutImage{i.from, raw, m})
}

// layoutImage is what partial makes an image of.
type layoutImage struct {
	from     blobs
	raw      []byte
	manifest v1.Manifest
}

func (i layoutImage) MediaType() (types.MediaType, error) {
	if i.manifest.MediaType == "" {
		return types.OCIManifestSchema1, nil
	}
	return i.manifest.MediaType, nil
}

func (i layoutImage) RawManifest() ([]byte, error) { return i.raw, nil }

func (i layoutImage) RawConfigFile() ([]byte, error) {
	return readDigest(i.from, "configuration", i.manifest.Config.Digest)
}

func (i layoutImage) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	for _, l := range i.manifest.Layers {
		if l.Digest == h {
			return layoutLayer{i.from, l}, nil
		}
	}
	return nil, fmt.Errorf("the image has no layer %s", h)
}

type layoutLayer struct {
	from blobs
	v1.Descriptor
}

func (l layoutLayer) Digest() (v1.Hash, error) { return l.Descriptor.Digest, nil }

func (l layoutLayer) MediaType() (types.MediaType, error) { return l.Descriptor.MediaType, nil }

func (l layoutLayer) Size() (int64, error) { return l.Descriptor.Size, nil }

// Compressed opens the layer, whose digest is compared when it is unpacked.
func (l layoutLayer) Compressed() (io.ReadCloser, error) {
	r, _, err := l.from.open(nameOf(l.Descriptor.Digest))
	return r, err
}

// openLayout finds the image of a layout, in a directory or in a tar.
func (i *Import) openLayout() (v1.Image, error) {
	from, what := blobs(directory(i.ref.Path)), "an OCI layout"
	if i.ref.Packed {
		f, err := os.Open(i.ref.Path)
		if err != nil {
			return nil, fmt.Errorf("cannot read the image: %w", err)
		}
		what = "a tar of an OCI layout, as podman and skopeo write it (docker-archive: is for what `docker save` writes)"
		if from, err = listPacked(f); err != nil {
			return nil, fmt.Errorf("cannot read %s, which is to be %s: %w", i.ref.Path, what, err)
		}
	}
	index, err := openLayoutIndex(from)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s, which is to be %s: %w", i.ref.Path, what, err)
	}
	return i.tagged(index)
}

// tagged finds the image of the reference's tag.
func (i *Import) tagged(index layoutIndex) (v1.Image, error) {
	if i.ref.Tag == "" {
		return i.choose(index)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("cannot read the index of %s: %w", i.ref.Path, err)
	}
	const refName = "org.opencontainers.image.ref.name"
	var tags []string
	for _, m := range manifest.Manifests {
		tags = append(tags, m.Annotations[refName])
		if m.Annotations[refName] != i.ref.Tag {
			continue
		}
		if !m.MediaType.IsIndex() {
			return index.Image(m.Digest)
		}
		below, err := index.ImageIndex(m.Digest)
		if err != nil {
			return nil, fmt.Errorf("cannot read the index of %s: %w", i.ref, err)
		}
		return i.choose(below)
	}
	return nil, fmt.Errorf("%s has no image %s, but %s", i.ref.Path, i.ref.Tag, strings.Join(tags, ", "))
}
