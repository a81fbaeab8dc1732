package parts

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// writeLayout makes dir an OCI image layout that holds one image, named tag, of
// one layer. The layer's file, an uncompressed archive, is moved into it.
func writeLayout(dir, tag, layer string, image v1.Image) error {
	blobs := filepath.Join(dir, v1.ImageBlobsDir, digest.Canonical.String())
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return fmt.Errorf("cannot make an image layout: %w", err)
	}
	content, err := describe(layer)
	if err != nil {
		return err
	}
	if err := os.Rename(layer, filepath.Join(blobs, content.Digest.Encoded())); err != nil {
		return fmt.Errorf("cannot move the layer: %w", err)
	}
	image.RootFS = v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{content.Digest}}
	config, err := writeBlob(blobs, v1.MediaTypeImageConfig, image)
	if err != nil {
		return err
	}
	manifest, err := writeBlob(blobs, v1.MediaTypeImageManifest, v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest,
		Config: config, Layers: []v1.Descriptor{content},
	})
	if err != nil {
		return err
	}
	manifest.Platform = &image.Platform
	manifest.Annotations = map[string]string{v1.AnnotationRefName: tag}
	index := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{manifest}}
	if err := writeJSON(filepath.Join(dir, v1.ImageIndexFile), index); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, v1.ImageLayoutFile), v1.ImageLayout{Version: v1.ImageLayoutVersion})
}

// describe reads an archive to its end.
func describe(path string) (v1.Descriptor, error) {
	f, err := os.Open(path)
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("cannot read the layer: %w", err)
	}
	defer f.Close()
	sum := digest.Canonical.Digester()
	size, err := io.Copy(sum.Hash(), f)
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("cannot read the layer: %w", err)
	}
	return v1.Descriptor{MediaType: v1.MediaTypeImageLayer, Digest: sum.Digest(), Size: size}, nil
}

func writeBlob(blobs, mediaType string, value any) (v1.Descriptor, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("cannot encode %s: %w", mediaType, err)
	}
	d := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	return d, writeFile(filepath.Join(blobs, d.Digest.Encoded()), data)
}

func writeJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("cannot encode %s: %w", path, err)
	}
	return writeFile(path, data)
}

func writeFile(path string, data []byte) error {
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("cannot write an image layout: %w", err)
	}
	return nil
}
