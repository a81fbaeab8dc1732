package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

func (s settings) sumsPath() string    { return filepath.Join(s.out, "SHA256SUMS") }
func (s settings) digestsPath() string { return filepath.Join(s.out, "digests.txt") }

// predicatePath is where what cosign attests is.
func (r *release) predicatePath() string { return filepath.Join(r.work, "predicate.json") }

// sums writes what to pull, and the checksums.
func (r *release) sums(context.Context) error {
	var pull strings.Builder
	for _, a := range r.artifacts {
		fmt.Fprintf(&pull, "%s@%s %s\n", a.repository, a.top.Digest, a.tag)
	}
	if err := os.WriteFile(r.digestsPath(), []byte(pull.String()), 0o644); err != nil {
		return fmt.Errorf("cannot write the digests: %w", err)
	}
	text, err := r.checksums()
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.sumsPath(), []byte(text), 0o644); err != nil {
		return fmt.Errorf("cannot write the checksums: %w", err)
	}
	return nil
}

// checksums are those of all files that are in no layout, as sha256sum writes them.
func (r *release) checksums() (string, error) {
	names, err := r.files()
	if err != nil {
		return "", err
	}
	own := filepath.Base(r.sumsPath())
	var text strings.Builder
	for _, name := range names {
		if name == own || name == own+signature {
			continue
		}
		sum, err := hashOf(filepath.Join(r.out, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, name)
	}
	return text.String(), nil
}

// unchanged compares the files with the checksums, and the commit with the tag's.
func (r *release) unchanged(context.Context) error {
	want, err := os.ReadFile(r.sumsPath())
	if err != nil {
		return fmt.Errorf("cannot sign what is not built: %w", err)
	}
	got, err := r.checksums()
	if err != nil {
		return err
	}
	if got != string(want) {
		return fmt.Errorf("cannot sign %s: its files are not those of SHA256SUMS", r.out)
	}
	text, err := os.ReadFile(r.provenancePath())
	if err != nil {
		return fmt.Errorf("cannot read the provenance: %w", err)
	}
	var s statement
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("cannot read the provenance: %w", err)
	}
	if s.Predicate == nil || !slices.ContainsFunc(s.Predicate.BuildDefinition.ResolvedDependencies, func(d resource) bool {
		return d.Digest["gitCommit"] == r.commit
	}) {
		return fmt.Errorf("cannot sign %s: its provenance does not name the tag's commit %s", r.out, r.commit)
	}
	return writeJSON(r.predicatePath(), s.Predicate)
}

// built reads which artifacts there are. A layout finds each by its digest.
func (r *release) built(ctx context.Context) error {
	text, err := os.ReadFile(r.digestsPath())
	if err != nil {
		return fmt.Errorf("cannot read the digests: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		reference, tag, _ := strings.Cut(strings.TrimSpace(line), " ")
		repository, digest, whole := strings.Cut(reference, "@")
		if !whole || tag == "" {
			return fmt.Errorf("cannot read the digests: %q names no artifact", line)
		}
		a := &artifact{repository: repository, tag: tag}
		from, err := r.store(ctx, repository)
		if err != nil {
			return err
		}
		if a.top, err = from.Resolve(ctx, digest); err != nil {
			return fmt.Errorf("cannot sign %s, which is not in its layout: %w", a, err)
		}
		if a.top.MediaType == v1.MediaTypeImageIndex {
			var index v1.Index
			if err := getJSON(ctx, from, a.top, &index); err != nil {
				return err
			}
			for _, d := range index.Manifests {
				a.images = append(a.images, &image{arch: d.Platform.Architecture, manifest: d})
			}
		}
		r.artifacts = append(r.artifacts, a)
	}
	return nil
}
