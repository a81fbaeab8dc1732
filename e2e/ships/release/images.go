package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/oci"
)

// image is one for one architecture.
type image struct {
	arch     string
	manifest v1.Descriptor
	config   v1.Image
	layers   []v1.Descriptor
}

// images builds all images, and joins those of a tag.
func (r *release) images(ctx context.Context) error {
	for _, arch := range architectures {
		targets := strings.Fields(*r.targets[arch])
		if len(targets) == 0 {
			continue
		}
		say("builds images for %s", arch)
		dir := filepath.Join(r.work, "images-"+arch)
		args := []string{
			"run", "./e2e/ships/images", "-arch", arch, "-buildx", r.buildx, "-buildkitd", r.buildkitd, "-cache", r.cache,
			"-programs", filepath.Join(r.work, "programs"), "-out", dir,
		}
		build := exec.CommandContext(ctx, "go", append(args, targets...)...)
		build.Env = r.environ("REGISTRY="+r.registry, "TAG="+r.version, "REVISION="+r.commit, "CREATED="+r.when.Format(time.RFC3339))
		build.Stdout = os.Stderr
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("cannot build the images for %s: %w", arch, err)
		}
		archives, err := filepath.Glob(filepath.Join(dir, "*.tar"))
		if err != nil {
			return fmt.Errorf("cannot list the images for %s: %w", arch, err)
		}
		for _, archive := range archives {
			if err := r.add(ctx, archive); err != nil {
				return err
			}
		}
	}
	for _, a := range r.artifacts {
		if len(a.images) == 0 {
			continue
		}
		if err := r.join(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// add copies the image of an archive into the layout of its repository.
func (r *release) add(ctx context.Context, archive string) error {
	from, err := oci.NewFromTar(ctx, archive)
	if err != nil {
		return fmt.Errorf("cannot read the image %s: %w", archive, err)
	}
	top, err := only(ctx, archive)
	if err != nil {
		return err
	}
	repository, tag, err := r.split(top.Annotations[containerdName])
	if err != nil {
		return err
	}
	to, err := r.store(ctx, repository)
	if err != nil {
		return err
	}
	top.Annotations = nil
	img := &image{manifest: top}
	var manifest v1.Manifest
	if err := getJSON(ctx, from, top, &manifest); err != nil {
		return err
	}
	if err := getJSON(ctx, from, manifest.Config, &img.config); err != nil {
		return err
	}
	img.arch, img.layers = img.config.Architecture, manifest.Layers
	img.manifest.Platform = &v1.Platform{OS: img.config.OS, Architecture: img.config.Architecture, Variant: img.config.Variant}
	if err := copyAll(ctx, from, to, []v1.Descriptor{top}); err != nil {
		return err
	}
	i := slices.IndexFunc(r.artifacts, func(a *artifact) bool { return a.repository == repository && a.tag == tag })
	if i < 0 {
		i = len(r.artifacts)
		r.artifacts = append(r.artifacts, &artifact{repository: repository, tag: tag})
	}
	r.artifacts[i].images = append(r.artifacts[i].images, img)
	return nil
}

// containerdName is where BuildKit says an image's whole name; OCI's own
// annotation has the tag alone.
const containerdName = "io.containerd.image.name"

// only returns what an archive's index names, with its annotations.
func only(ctx context.Context, archive string) (v1.Descriptor, error) {
	text, err := output(exec.CommandContext(ctx, "tar", "-xOf", archive, v1.ImageIndexFile))
	if err != nil {
		return v1.Descriptor{}, err
	}
	var index v1.Index
	if err := json.Unmarshal([]byte(text), &index); err != nil {
		return v1.Descriptor{}, fmt.Errorf("cannot read the index of %s: %w", archive, err)
	}
	if len(index.Manifests) != 1 || index.Manifests[0].MediaType != v1.MediaTypeImageManifest {
		return v1.Descriptor{}, fmt.Errorf("%s holds something else than one image", archive)
	}
	return index.Manifests[0], nil
}

// join makes the images of a tag one, and tags it.
func (r *release) join(ctx context.Context, a *artifact) error {
	to, err := r.store(ctx, a.repository)
	if err != nil {
		return err
	}
	index := v1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex,
		Annotations: map[string]string{
			v1.AnnotationVersion: a.tag, v1.AnnotationRevision: r.commit, v1.AnnotationCreated: r.when.Format(time.RFC3339),
		},
	}
	for _, img := range a.images {
		index.Manifests = append(index.Manifests, img.manifest)
	}
	if a.top, err = putJSON(ctx, to, v1.MediaTypeImageIndex, index); err != nil {
		return err
	}
	if err := to.Tag(ctx, a.top, a.tag); err != nil {
		return fmt.Errorf("cannot tag %s: %w", a, err)
	}
	return nil
}

// files lists the release's files that are in no layout, by their paths in it.
func (r *release) files() ([]string, error) {
	var all []string
	err := filepath.WalkDir(r.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.out, path)
		if d.IsDir() && name == "oci" {
			return fs.SkipDir
		}
		if d.Type().IsRegular() {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the release's files: %w", err)
	}
	return all, nil
}
