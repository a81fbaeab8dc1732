package oci

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestImage(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "program"), []byte("#!/bin/true"), 0o755))
	require.NoError(t, os.Symlink("program", filepath.Join(dir, "alias")))
	layer, err := os.Create(filepath.Join(t.TempDir(), "layer"))
	require.NoError(t, err)
	defer layer.Close()
	require.NoError(t, Layer(layer, map[string]string{"/": dir, "/opt/copy": filepath.Join(dir, "program")}))
	_, err = layer.Seek(0, 0)
	require.NoError(t, err)
	var archive bytes.Buffer
	require.NoError(t, Image{Name: "registry.invalid/a:1", Entrypoint: []string{"/program"}, User: "65535"}.Write(&archive, layer))

	files := read(t, &archive)
	index := decode(t, files["index.json"])
	manifest := index["manifests"].([]any)[0].(map[string]any)
	assert.Equal(t, "registry.invalid/a:1", manifest["annotations"].(map[string]any)["io.containerd.image.name"])
	contents := decode(t, blob(t, files, manifest))
	config := decode(t, blob(t, files, contents["config"].(map[string]any)))
	assert.Equal(t, "65535", config["config"].(map[string]any)["User"])
	its := contents["layers"].([]any)[0].(map[string]any)
	assert.Equal(t, []any{its["digest"]}, config["rootfs"].(map[string]any)["diff_ids"], "uncompressed: both are the same")

	inside := read(t, bytes.NewReader(blob(t, files, its)))
	assert.Equal(t, "#!/bin/true", string(inside["program"]))
	assert.Equal(t, "#!/bin/true", string(inside["opt/copy"]))
	assert.Contains(t, inside, "alias")
	assert.Len(t, inside, 3)
}

// A node's root holds other users' files, and setuid programs.
func TestOwnersAndModesAreKept(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Chown(file, 64030, 7))
	require.NoError(t, os.Chmod(file, 0o755|os.ModeSetuid))
	var archive bytes.Buffer
	require.NoError(t, Layer(&archive, map[string]string{"/f": file}))
	header, err := tar.NewReader(&archive).Next()
	require.NoError(t, err)
	assert.Equal(t, 64030, header.Uid)
	assert.Equal(t, 7, header.Gid)
	assert.EqualValues(t, 0o4755, header.Mode)
	assert.Empty(t, header.Uname, "the host's names mean nothing in there")
}

// blob finds what a descriptor means, and holds it to its digest and size.
func blob(t *testing.T, files map[string][]byte, descriptor map[string]any) []byte {
	digest := descriptor["digest"].(string)[len("sha256:"):]
	data, ok := files["blobs/sha256/"+digest]
	require.True(t, ok, digest)
	sum := sha256.Sum256(data)
	require.Equal(t, digest, hex.EncodeToString(sum[:]))
	require.Len(t, data, int(descriptor["size"].(float64)))
	return data
}

func read(t *testing.T, from io.Reader) map[string][]byte {
	files := map[string][]byte{}
	in := tar.NewReader(from)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		files[header.Name], err = io.ReadAll(in)
		require.NoError(t, err)
	}
}

func decode(t *testing.T, data []byte) map[string]any {
	var value map[string]any
	require.NoError(t, json.Unmarshal(data, &value))
	return value
}
