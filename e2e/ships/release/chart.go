package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.yaml.in/yaml/v3"
)

// The types of a chart in a registry (helm.sh/helm/v4/pkg/registry).
const (
	chartConfig = "application/vnd.cncf.helm.config.v1+json"
	chartLayer  = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// charts are the names of those in the folder charts: slurm is a cluster, slurmlet the controller.
var charts = []string{"slurm", "slurmlet"}

// charts packs the charts.
func (r *release) charts(ctx context.Context) error {
	for _, name := range charts {
		if err := r.chart(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// packed is where a packed chart is.
func (r *release) packed(chart string) string {
	return filepath.Join(r.out, chart+"-"+strings.TrimPrefix(r.version, "v")+".tgz")
}

// chart packs a chart, whose images are this version's, and writes it as an OCI artifact.
func (r *release) chart(ctx context.Context, chart string) error {
	say("packs the chart %s", chart)
	copied := filepath.Join(r.work, "charts", chart)
	if err := os.CopyFS(copied, os.DirFS(filepath.Join("charts", chart))); err != nil {
		return fmt.Errorf("cannot copy the chart %s: %w", chart, err)
	}
	if err := r.pointAtRegistry(filepath.Join(copied, "values.yaml")); err != nil {
		return err
	}
	// Helm packs a file with its time.
	err := filepath.WalkDir(copied, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, r.when, r.when))
	})
	if err != nil {
		return fmt.Errorf("cannot set the times of the chart's files: %w", err)
	}
	number := strings.TrimPrefix(r.version, "v")
	pack := exec.CommandContext(ctx, r.helm, "package", copied, "--version", number, "--app-version", r.version, "--destination", r.out)
	if _, err := output(pack); err != nil {
		return err
	}
	archive, err := os.ReadFile(r.packed(chart))
	if err != nil {
		return fmt.Errorf("cannot read the packed chart: %w", err)
	}
	return r.putChart(ctx, chart, number, archive)
}

// imageRegistry is the line of values.yaml that says where the images are.
var imageRegistry = regexp.MustCompile(`(?m)^(image:\n(?:  .*\n)*?  registry: ).*$`)

func (r *release) pointAtRegistry(values string) error {
	text, err := os.ReadFile(values)
	if err != nil {
		return fmt.Errorf("cannot read the chart's values: %w", err)
	}
	if !imageRegistry.Match(text) {
		return fmt.Errorf("cannot find image.registry in %s", values)
	}
	text = imageRegistry.ReplaceAll(text, []byte("${1}"+r.registry))
	if err := os.WriteFile(values, text, 0o644); err != nil {
		return fmt.Errorf("cannot write the chart's values: %w", err)
	}
	return nil
}

// putChart writes what `helm push` would, with the commit's time in place of the present.
func (r *release) putChart(ctx context.Context, chart, number string, archive []byte) error {
	a := &artifact{repository: "charts/" + chart, tag: number}
	to, err := r.store(ctx, a.repository)
	if err != nil {
		return err
	}
	about, err := metadata(archive, chart)
	if err != nil {
		return fmt.Errorf("cannot read Chart.yaml of the chart %s: %w", chart, err)
	}
	config, err := putJSON(ctx, to, chartConfig, about)
	if err != nil {
		return err
	}
	layer, err := put(ctx, to, chartLayer, archive)
	if err != nil {
		return err
	}
	a.top, err = putJSON(ctx, to, v1.MediaTypeImageManifest, v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest,
		Config: config, Layers: []v1.Descriptor{layer},
		Annotations: map[string]string{
			v1.AnnotationTitle: chart, v1.AnnotationVersion: number, v1.AnnotationRevision: r.commit,
			v1.AnnotationDescription: fmt.Sprint(about["description"]), v1.AnnotationCreated: r.when.Format(time.RFC3339),
		},
	})
	if err != nil {
		return err
	}
	if err := to.Tag(ctx, a.top, a.tag); err != nil {
		return fmt.Errorf("cannot tag %s: %w", a, err)
	}
	r.artifacts = append(r.artifacts, a)
	return nil
}

// metadata is a packed chart's Chart.yaml.
func metadata(packed []byte, chart string) (about map[string]any, err error) {
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(plain); ; {
		h, err := files.Next()
		if err != nil {
			return nil, err
		}
		if h.Name != chart+"/Chart.yaml" {
			continue
		}
		text, err := io.ReadAll(files)
		if err != nil {
			return nil, err
		}
		err = yaml.Unmarshal(text, &about)
		return about, err
	}
}
