// Package krew makes what krew, kubectl's package manager, installs kubectl slurm from: an archive for each platform, and
// the manifest that names them. The rules are krew's: sigs.k8s.io/krew/internal/index/validation, and those of krew-index.
package krew

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// Name is the plugin's: kubectl slurm. Its manifest is Name.yaml, which krew wants.
const Name = "slurm"

// program is the plugin's file, and license the one that each archive of krew-index must have.
const program, license = "kubectl-slurm", "LICENSE"

// Platform is an operating system and an architecture, as Go calls them, and where its archive is.
type Platform struct {
	OS, Arch string
	// URI is where krew downloads the archive, SHA256 the sum of it in hex.
	URI, SHA256 string
}

// Archive packs the program and the license. The same bytes and the same time give the same archive.
func Archive(binary, licence []byte, when time.Time) ([]byte, error) {
	var packed bytes.Buffer
	squeezed := gzip.NewWriter(&packed)
	files := tar.NewWriter(squeezed)
	for _, one := range []struct {
		name string
		mode int64
		data []byte
	}{{program, 0o755, binary}, {license, 0o644, licence}} {
		header := &tar.Header{Name: one.name, Mode: one.mode, Size: int64(len(one.data)), ModTime: when, Format: tar.FormatUSTAR}
		if err := files.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("cannot pack %s for krew: %w", one.name, err)
		}
		if _, err := files.Write(one.data); err != nil {
			return nil, fmt.Errorf("cannot pack %s for krew: %w", one.name, err)
		}
	}
	if err := files.Close(); err != nil {
		return nil, fmt.Errorf("cannot pack for krew: %w", err)
	}
	if err := squeezed.Close(); err != nil {
		return nil, fmt.Errorf("cannot pack for krew: %w", err)
	}
	return packed.Bytes(), nil
}

// Sum is the SHA-256 of an archive as a manifest has it.
func Sum(archive []byte) string {
	sum := sha256.Sum256(archive)
	return hex.EncodeToString(sum[:])
}

// manifest is krew's Plugin (krew.googlecontainertools.github.com/v1alpha2), as far as it is written here.
type manifest struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   map[string]string `yaml:"metadata"`
	Spec       spec              `yaml:"spec"`
}

type spec struct {
	Version          string     `yaml:"version"`
	Homepage         string     `yaml:"homepage"`
	ShortDescription string     `yaml:"shortDescription"`
	Description      string     `yaml:"description"`
	Caveats          string     `yaml:"caveats"`
	Platforms        []platform `yaml:"platforms"`
}

type platform struct {
	Selector struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	} `yaml:"selector"`
	URI    string              `yaml:"uri"`
	SHA256 string              `yaml:"sha256"`
	Bin    string              `yaml:"bin"`
	Files  []map[string]string `yaml:"files"`
}

const description = `See how a cluster of Slurm's on Kubernetes (slurmlet) stands, why a job or a node waits and what ends that, read the logs
of daemons and jobs, open a shell in a login pod or on a node, and drain and resume nodes. It needs no rights but
yours, and names the one that is missing.
`

const caveats = `For completion of "kubectl slurm", link the plugin once more, into a directory of your PATH:

  ln -s "${KREW_ROOT:-$HOME/.krew}/bin/kubectl-slurm" ~/.local/bin/kubectl_complete-slurm
`

// Manifest is the text of slurm.yaml for a version, as in v0.1.0.
func Manifest(version, homepage string, platforms []Platform) ([]byte, error) {
	m := manifest{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": Name},
		Spec: spec{
			Version: version, Homepage: homepage, ShortDescription: "Ask and operate Slurm clusters on Kubernetes",
			Description: description, Caveats: caveats,
		},
	}
	for _, one := range platforms {
		p := platform{URI: one.URI, SHA256: one.SHA256, Bin: program, Files: []map[string]string{
			{"from": program, "to": "."}, {"from": license, "to": "."},
		}}
		p.Selector.MatchLabels = map[string]string{"os": one.OS, "arch": one.Arch}
		m.Spec.Platforms = append(m.Spec.Platforms, p)
	}
	text, err := yaml.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("cannot write krew's manifest: %w", err)
	}
	return text, nil
}
