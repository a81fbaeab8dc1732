// Package oci writes container images of one layer, for `ctr images import`:
// the image layout (github.com/opencontainers/image-spec) in a tar archive.
package oci

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
)

// Image is what to write.
type Image struct {
	// Name is what pods ask for: "registry.invalid/pause:1".
	Name       string
	Entrypoint []string
	User       string
	Env        []string
}

const (
	layerType    = "application/vnd.oci.image.layer.v1.tar"
	configType   = "application/vnd.oci.image.config.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Write writes the image with layer, an uncompressed tar archive in a file.
func (i Image) Write(w io.Writer, layer *os.File) error {
	digest := sha256.New()
	size, err := io.Copy(digest, layer)
	if err != nil {
		return fmt.Errorf("cannot read the layer of image %s: %v", i.Name, err)
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("cannot read the layer of image %s: %v", i.Name, err)
	}
	out := archive{tar.NewWriter(w)}
	its := descriptor{MediaType: layerType, Digest: "sha256:" + hex.EncodeToString(digest.Sum(nil)), Size: size}
	err = out.blob(its, layer)
	if err == nil {
		err = i.describe(out, its)
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		return fmt.Errorf("cannot write image %s: %v", i.Name, err)
	}
	return nil
}

// describe writes what leads from the archive's index to the layer.
func (i Image) describe(out archive, layer descriptor) error {
	config, err := out.document(configType, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": i.Entrypoint, "User": i.User, "Env": i.Env},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}},
	})
	if err != nil {
		return err
	}
	manifest, err := out.document(manifestType, map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": []descriptor{layer},
	})
	if err != nil {
		return err
	}
	manifest.Annotations = map[string]string{"io.containerd.image.name": i.Name, "org.opencontainers.image.ref.name": i.Name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": []descriptor{manifest}})
	if err != nil {
		return err
	}
	if err := out.file("index.json", int64(len(index)), bytes.NewReader(index)); err != nil {
		return err
	}
	const layout = `{"imageLayoutVersion":"1.0.0"}`
	return out.file("oci-layout", int64(len(layout)), bytes.NewReader([]byte(layout)))
}

type archive struct{ *tar.Writer }

// document writes a blob of JSON, and returns what others call it.
func (a archive) document(mediaType string, value any) (descriptor, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, err
	}
	digest := sha256.Sum256(text)
	d := descriptor{MediaType: mediaType, Digest: "sha256:" + hex.EncodeToString(digest[:]), Size: int64(len(text))}
	return d, a.blob(d, bytes.NewReader(text))
}

func (a archive) blob(d descriptor, from io.Reader) error {
	return a.file("blobs/sha256/"+d.Digest[len("sha256:"):], d.Size, from)
}

func (a archive) file(name string, size int64, from io.Reader) error {
	if err := a.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err := io.Copy(a, from)
	return err
}
