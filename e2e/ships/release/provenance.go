package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// The types of the documents (in-toto.io/Statement/v1, slsa.dev/provenance/v1).
const (
	statementType  = "https://in-toto.io/Statement/v1"
	provenanceType = "https://slsa.dev/provenance/v1"
	buildType      = "urn:slurmlet:make-release:v1"
)

// resource is a thing that went into the release, or came out of it.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// predicate is SLSA's provenance. It has no times of its own, so that the same tag
// gives the same document.
type predicate struct {
	BuildDefinition struct {
		BuildType            string         `json:"buildType"`
		ExternalParameters   map[string]any `json:"externalParameters"`
		InternalParameters   map[string]any `json:"internalParameters"`
		ResolvedDependencies []resource     `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// statement is the provenance of all that is in a release (in-toto).
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     *predicate `json:"predicate"`
}

// provenancePath is where a release's statement is.
func (s settings) provenancePath() string { return filepath.Join(s.out, "provenance.json") }

// provenance writes what the release was made from.
func (r *release) provenance(context.Context) error {
	say("writes the provenance")
	p, err := r.predicate()
	if err != nil {
		return err
	}
	names, err := r.files()
	if err != nil {
		return err
	}
	var subjects []resource
	for _, name := range names {
		sum, err := hashOf(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		subjects = append(subjects, resource{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	for _, a := range r.artifacts {
		subjects = append(subjects, resource{Name: r.registry + "/" + a.String(), Digest: hexOf(a.top.Digest)})
	}
	return writeJSON(r.provenancePath(), statement{statementType, subjects, provenanceType, p})
}

func (r *release) predicate() (*predicate, error) {
	p := &predicate{}
	p.RunDetails.Builder.ID = r.builder
	d := &p.BuildDefinition
	d.BuildType = buildType
	d.ExternalParameters = map[string]any{"version": r.version, "registry": r.registry}
	for _, arch := range architectures {
		d.ExternalParameters[arch] = *r.targets[arch]
	}
	d.InternalParameters = map[string]any{"go": runtime.Version(), "SOURCE_DATE_EPOCH": r.when.Unix()}
	d.ResolvedDependencies = []resource{{
		URI: "pkg:golang/github.com/slurmlet/slurmlet@" + r.version, Digest: map[string]string{"gitCommit": r.commit},
	}}
	locks, err := filepath.Glob(".ci/*/go.sum")
	if err != nil {
		return nil, fmt.Errorf("cannot list the tools: %w", err)
	}
	for _, lock := range append([]string{"go.sum", "controller/go.sum"}, locks...) {
		sum, err := hashOf(lock)
		if err != nil {
			return nil, err
		}
		d.ResolvedDependencies = append(d.ResolvedDependencies, resource{Name: lock, Digest: map[string]string{"sha256": sum}})
	}
	d.ResolvedDependencies = append(d.ResolvedDependencies, r.bases()...)
	return p, nil
}

// baseName is the label with the name of the image that another stands on.
const baseName = "org.opencontainers.image.base.name"

// bases are Debian's images: each has one layer, which is the first of an image on it.
func (r *release) bases() []resource {
	var all []resource
	for _, a := range r.artifacts {
		for _, img := range a.images {
			name := img.config.Config.Labels[baseName]
			if name == "" || len(img.config.RootFS.DiffIDs) == 0 {
				continue
			}
			b := resource{Name: name + " for " + img.arch, Digest: hexOf(img.config.RootFS.DiffIDs[0])}
			if !slices.ContainsFunc(all, func(r resource) bool { return r.Name == b.Name }) {
				all = append(all, b)
			}
		}
	}
	return all
}

func writeJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return fmt.Errorf("cannot encode %s: %w", path, err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

func hashOf(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot hash %s: %w", path, err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
