package krew

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// systems and architectures are those that krew knows and the plugin is for.
var systems, architectures = []string{"darwin", "linux"}, []string{"amd64", "arm64"}

// release is a manifest, and the archive behind each of its URIs.
func release(t *testing.T) (manifest, map[string][]byte) {
	t.Helper()
	archives, platforms := map[string][]byte{}, []Platform{}
	for _, system := range systems {
		for _, arch := range architectures {
			packed, err := Archive([]byte("#!/bin/sh\necho "+system+arch+"\n"), []byte("a license"), time.Unix(1, 0))
			require.NoError(t, err)
			uri := "https://downloads.example/v0.1.0/kubectl-slurm-" + system + "-" + arch + ".tar.gz"
			archives[uri] = packed
			platforms = append(platforms, Platform{OS: system, Arch: arch, URI: uri, SHA256: Sum(packed)})
		}
	}
	text, err := Manifest("v0.1.0", "https://slurmlet.example", platforms)
	require.NoError(t, err)
	var m manifest
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&m))
	return m, archives
}

// TestManifest: the rules of krew's validation and of krew-index.
func TestManifest(t *testing.T) {
	m, _ := release(t)
	assert.Equal(t, "krew.googlecontainertools.github.com/v1alpha2", m.APIVersion)
	assert.Equal(t, "Plugin", m.Kind)
	assert.Regexp(t, `^[a-z][a-z0-9-]*$`, m.Metadata["name"])
	assert.NotContains(t, m.Metadata["name"], "kube")
	assert.Regexp(t, `^v\d+\.\d+\.\d+`, m.Spec.Version)
	assert.NotEmpty(t, m.Spec.ShortDescription)
	assert.LessOrEqual(t, len(m.Spec.ShortDescription), 50)
	assert.NotContains(t, m.Spec.ShortDescription, "\n")
	assert.False(t, strings.HasSuffix(m.Spec.ShortDescription, "."))
	assert.NotEmpty(t, m.Spec.Description)
	require.Len(t, m.Spec.Platforms, len(systems)*len(architectures))
	for _, p := range m.Spec.Platforms {
		uri, err := url.Parse(p.URI)
		require.NoError(t, err)
		assert.Equal(t, "https", uri.Scheme)
		assert.Regexp(t, `^[0-9a-f]{64}$`, p.SHA256)
		assert.Equal(t, "kubectl-"+m.Metadata["name"], p.Bin, "krew links it as kubectl-NAME")
		assert.False(t, path.IsAbs(p.Bin))
	}
}

// TestInstall does what krew does: it chooses the platform, compares the sum, unpacks, and takes the files of the manifest.
func TestInstall(t *testing.T) {
	m, archives := release(t)
	for _, system := range systems {
		for _, arch := range architectures {
			t.Run(system+" "+arch, func(t *testing.T) {
				var chosen []platform
				for _, p := range m.Spec.Platforms {
					if p.Selector.MatchLabels["os"] == system && p.Selector.MatchLabels["arch"] == arch {
						chosen = append(chosen, p)
					}
				}
				require.Len(t, chosen, 1)
				archive := archives[chosen[0].URI]
				require.Equal(t, chosen[0].SHA256, Sum(archive))
				files := unpack(t, archive)
				for _, move := range chosen[0].Files {
					assert.Contains(t, files, move["from"])
					assert.Equal(t, ".", move["to"])
				}
				assert.Equal(t, fs.FileMode(0o755), files[chosen[0].Bin].mode)
				assert.Contains(t, files[chosen[0].Bin].text, system+arch)
				assert.Equal(t, file{0o644, "a license"}, files["LICENSE"])
			})
		}
	}
	_, again := release(t)
	assert.Equal(t, archives, again, "the same bytes")
}

type file struct {
	mode fs.FileMode
	text string
}

func unpack(t *testing.T, archive []byte) map[string]file {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	files := map[string]file{}
	for from := tar.NewReader(plain); ; {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		require.True(t, fs.ValidPath(header.Name), "krew refuses what leaves its directory")
		text, err := io.ReadAll(from)
		require.NoError(t, err)
		files[header.Name] = file{header.FileInfo().Mode(), string(text)}
	}
}
