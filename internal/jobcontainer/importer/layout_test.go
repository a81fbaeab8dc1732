package importer

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/imageref"
)

func tarOf(t testing.TB, files map[string]string) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, text := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}))
		_, err := io.WriteString(w, text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// packedImage is an image of one layer as podman packs it, whose index names it x:1.
func packedImage(t testing.TB) []byte {
	text := tarOf(t, map[string]string{"file": "in the image"})
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil })
	require.NoError(t, err)
	image, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	dir := t.TempDir()
	written, err := layout.Write(dir, empty.Index)
	require.NoError(t, err)
	require.NoError(t, written.AppendImage(image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "x:1"})))
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files["./"+name] = string(text)
		return err
	}))
	return tarOf(t, files)
}

func openPacked(t testing.TB, text []byte, tag string) (v1.Image, error) {
	path := filepath.Join(t.TempDir(), "image.tar")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	i := Import{Arch: "amd64", Messages: io.Discard, ref: imageref.Reference{Path: path, Packed: true, Tag: tag}}
	return i.open(context.Background())
}

func TestPackedLayout(t *testing.T) {
	text := packedImage(t)
	for _, tag := range []string{"", "x:1"} {
		image, err := openPacked(t, text, tag)
		require.NoError(t, err)
		layers, err := image.Layers()
		require.NoError(t, err)
		require.Len(t, layers, 1)
		r, err := layers[0].Uncompressed()
		require.NoError(t, err)
		h, err := tar.NewReader(r).Next()
		require.NoError(t, err)
		assert.Equal(t, "file", h.Name)
	}
	_, err := openPacked(t, text, "y")
	require.ErrorContains(t, err, "has no image y, but x:1")
}

func TestPackedLayoutRefuses(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	entry := func(kind, digest string) map[string]string {
		return map[string]string{"index.json": fmt.Sprintf(`{"manifests": [{"mediaType": "application/vnd.oci.image.%s.v1+json", "digest": %q}]}`, kind, digest)}
	}
	blob := func(files map[string]string, text string) map[string]string {
		files["blobs/sha256/"+digest[len("sha256:"):]] = text
		return files
	}
	for why, files := range map[string]map[string]string{
		"it has no index.json":                      {"manifest.json": "[]"},
		"cannot read the index":                     {"index.json": "{"},
		"it has no blobs/sha256/0123":               entry("manifest", digest),
		"the image's manifest is sha256:":           blob(entry("manifest", digest), "{}"),
		"the image's index is sha256:":              blob(entry("index", digest), "{}"),
		"non-hex character":                         entry("manifest", "../../etc:passwd"),
		"index.json has 8388609 bytes, and at most": {"index.json": string(make([]byte, mostSmall+1))},
	} {
		_, err := openPacked(t, tarOf(t, files), "")
		require.ErrorContains(t, err, why)
	}
	text := packedImage(t)
	_, err := openPacked(t, text[:512+1], "") // in the first file
	require.Error(t, err)
	_, err = openPacked(t, []byte("no tar"), "")
	require.ErrorContains(t, err, "which is to be a tar of an OCI layout")
}

// FuzzPackedLayout: a tar, whatever it has, is an image or an error, and no file of it is read beyond its end.
func FuzzPackedLayout(f *testing.F) {
	f.Add(packedImage(f))
	f.Add(tarOf(f, map[string]string{"index.json": `{"manifests": [{}]}`}))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := listPacked(bytes.NewReader(text))
		if err != nil {
			return
		}
		for name, at := range p.parts {
			require.LessOrEqual(t, at.offset+at.size, int64(len(text)), name)
			require.False(t, filepath.IsAbs(name) || name == ".." || len(name) > 2 && name[:3] == "../", name)
		}
		index, err := openLayoutIndex(p)
		if err != nil {
			return
		}
		i := Import{Arch: "amd64", Messages: io.Discard, ref: imageref.Reference{Path: "x", Packed: true}}
		image, err := i.tagged(index)
		if err != nil {
			return
		}
		if config, err := i.verify(image); err == nil {
			require.NotNil(t, config)
		}
	})
}
