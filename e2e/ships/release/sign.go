package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/slurmlet/slurmlet/e2e/testbed/registry"
)

// sign signs what build has left, once it is whole.
func (s settings) sign(ctx context.Context) error {
	if s.key == "" {
		return errors.New("want a key that signs: KEY=cosign.key; cosign generate-key-pair makes one")
	}
	from, err := tagged(ctx, s.version)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "slurmlet-release-")
	if err != nil {
		return fmt.Errorf("cannot make a directory to work in: %w", err)
	}
	defer os.RemoveAll(work)
	r := &release{settings: s, source: from, work: work}
	for _, step := range []func(context.Context) error{r.unchanged, r.built, r.signAll} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	sums := r.sumsPath()
	if err := r.runCosign(ctx, "sign-blob", "--bundle", sums+signature, sums); err != nil {
		return err
	}
	say("%s in %s is signed", s.version, s.out)
	return nil
}

// signature is how the name of what signs a file ends.
const signature = ".sigstore.json"

// signAll signs every image and chart, and attests to their SBOMs and their
// provenance. Cosign signs in a registry, so one lives as long as this takes, and
// the layouts get back what cosign has added.
func (r *release) signAll(ctx context.Context) error {
	say("signs %d artifacts", len(r.artifacts))
	dir := filepath.Join(r.work, "registry")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the registry's directory: %w", err)
	}
	local, err := registry.Start(ctx, r.distribution, dir)
	if err != nil {
		return err
	}
	defer local.Stop()
	there := r.settings
	there.registry, there.plainHTTP = local.Address, true
	for _, a := range r.artifacts {
		if err := r.signOne(ctx, there, a); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) signOne(ctx context.Context, there settings, a *artifact) error {
	layout, err := r.store(ctx, a.repository)
	if err != nil {
		return err
	}
	remote, err := there.remote(a.repository)
	if err != nil {
		return err
	}
	if err := copyAll(ctx, layout, remote, a.nodes()); err != nil {
		return err
	}
	name := there.registry + "/" + a.repository + "@"
	top := name + a.top.Digest.String()
	if err := r.runCosign(ctx, "sign", "--recursive", top); err != nil {
		return err
	}
	if err := r.runCosign(ctx, "attest", "--type", "slsaprovenance1", "--predicate", r.predicatePath(), top); err != nil {
		return err
	}
	for _, img := range a.images {
		bill := r.billPath(billOf(a, img))
		if err := r.runCosign(ctx, "attest", "--type", "spdxjson", "--predicate", bill, name+img.manifest.Digest.String()); err != nil {
			return err
		}
	}
	return copyAll(ctx, remote, layout, a.nodes())
}

// What cosign would ask the public Sigstore for: which services sign along, and
// whose certificates count. A key needs neither.
const (
	noServices = `{"mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json", "rekorTlogConfig": {}, "tsaConfig": {}}`
	nobody     = `{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`
)

// runCosign runs cosign, which signs with the key.
func (r *release) runCosign(ctx context.Context, verb string, args ...string) error {
	config, root := filepath.Join(r.work, "signing-config.json"), filepath.Join(r.work, "trusted-root.json")
	for name, text := range map[string]string{config: noServices, root: nobody} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return fmt.Errorf("cannot write cosign's settings: %w", err)
		}
	}
	args = slices.Concat([]string{verb, "--yes", "--key", r.key, "--signing-config", config, "--trusted-root", root}, args)
	cmd := exec.CommandContext(ctx, r.cosign, args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot run cosign %s: %w\n%s", verb, err, said.String())
	}
	return nil
}
