package parts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnUnknownBaseIsRefused(t *testing.T) {
	_, err := Base(t.Context(), "debian:sid-slim", "amd64", silent)
	assert.EqualError(t, err, `cannot make the image "debian:sid-slim": there are debian:trixie-slim, debian:forky-slim`)
}

func TestBaseArguments(t *testing.T) {
	m := mirror{uris: []string{"http://m"}, keyring: "/k"}
	args := baseArgs(release{suite: "trixie"}, "arm64", "/layer.tar", m)
	assert.Equal(t, []string{"trixie", "/layer.tar", "deb [signed-by=/k] http://m trixie main"}, args[len(args)-3:])
	assert.Contains(t, args, "--architectures=arm64")
	assert.NotContains(t, args, `--aptopt=Acquire::Check-Valid-Until "false"`)
	assert.NotContains(t, args, "--customize-hook="+strict)
	moving := baseArgs(release{suite: "forky", moving: true}, "arm64", "/layer.tar", m)
	assert.Subset(t, moving, []string{`--aptopt=Acquire::Check-Valid-Until "false"`, "--customize-hook=" + strict})
}

func TestLayout(t *testing.T) {
	dir := t.TempDir()
	layer := filepath.Join(dir, "layer.tar")
	require.NoError(t, os.WriteFile(layer, []byte("an archive"), 0o644))
	require.NoError(t, writeLayout(dir, "trixie-slim", layer, v1.Image{Platform: v1.Platform{OS: "linux", Architecture: "amd64"}}))

	var index v1.Index
	decode(t, filepath.Join(dir, "index.json"), &index)
	require.Len(t, index.Manifests, 1)
	assert.Equal(t, "trixie-slim", index.Manifests[0].Annotations[v1.AnnotationRefName])
	var manifest v1.Manifest
	decode(t, blob(t, dir, index.Manifests[0]), &manifest)
	var config v1.Image
	decode(t, blob(t, dir, manifest.Config), &config)
	require.Len(t, manifest.Layers, 1)
	assert.Equal(t, []digest.Digest{manifest.Layers[0].Digest}, config.RootFS.DiffIDs)
	content, err := os.ReadFile(blob(t, dir, manifest.Layers[0]))
	require.NoError(t, err)
	assert.Equal(t, "an archive", string(content))
	assert.NoFileExists(t, layer)
}

// blob returns the path of what d describes, if it is that.
func blob(t *testing.T, dir string, d v1.Descriptor) string {
	t.Helper()
	path := filepath.Join(dir, "blobs/sha256", d.Digest.Encoded())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, d.Digest, digest.FromBytes(content))
	assert.EqualValues(t, len(content), d.Size)
	return path
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, into))
}
