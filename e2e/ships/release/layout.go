package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
)

// artifact is what a registry has under one tag: an image for several
// architectures, or a chart.
type artifact struct {
	repository, tag string // agent, v0.1.0
	top             v1.Descriptor
	images          []*image // one for each architecture; none of a chart
}

func (a *artifact) String() string { return a.repository + ":" + a.tag }

// nodes are the manifests that others may refer to.
func (a *artifact) nodes() []v1.Descriptor {
	all := []v1.Descriptor{a.top}
	for _, i := range a.images {
		all = append(all, i.manifest)
	}
	return all
}

// layout is where the artifacts of a repository are.
func (s settings) layout(repository string) string { return filepath.Join(s.out, "oci", repository) }

// store opens a repository's layout, and makes one where there is none.
func (s settings) store(ctx context.Context, repository string) (*oci.Store, error) {
	store, err := oci.NewWithContext(ctx, s.layout(repository))
	if err != nil {
		return nil, fmt.Errorf("cannot open the image layout of %s: %w", repository, err)
	}
	return store, nil
}

// put writes a blob, if it is not there yet.
func put(ctx context.Context, to oras.Target, mediaType string, data []byte) (v1.Descriptor, error) {
	d := content.NewDescriptorFromBytes(mediaType, data)
	there, err := to.Exists(ctx, d)
	if err == nil && !there {
		err = to.Push(ctx, d, bytes.NewReader(data))
	}
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("cannot write a blob of type %s: %w", mediaType, err)
	}
	return d, nil
}

func putJSON(ctx context.Context, to oras.Target, mediaType string, value any) (v1.Descriptor, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("cannot encode a blob of type %s: %w", mediaType, err)
	}
	return put(ctx, to, mediaType, data)
}

func getJSON(ctx context.Context, from content.Fetcher, d v1.Descriptor, into any) error {
	data, err := content.FetchAll(ctx, from, d)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", d.Digest, err)
	}
	return nil
}

// copyAll copies nodes, and all that refers to them: signatures, SBOMs, provenance.
func copyAll(ctx context.Context, from content.ReadOnlyGraphStorage, to content.Storage, nodes []v1.Descriptor) error {
	for _, node := range nodes {
		if err := oras.ExtendedCopyGraph(ctx, from, to, node, oras.DefaultExtendedCopyGraphOptions); err != nil {
			return fmt.Errorf("cannot copy %s: %w", node.Digest, err)
		}
	}
	return nil
}

// split takes registry.example/slurmlet/agent:v0.1.0 apart, behind the registry.
func (s settings) split(name string) (repository, tag string, err error) {
	rest, ours := strings.CutPrefix(name, s.registry+"/")
	repository, tag, whole := strings.Cut(rest, ":")
	if !ours || !whole {
		return "", "", fmt.Errorf("an image is named %q, which is not in %s", name, s.registry)
	}
	return repository, tag, nil
}

func hexOf(d digest.Digest) map[string]string {
	return map[string]string{d.Algorithm().String(): d.Encoded()}
}
