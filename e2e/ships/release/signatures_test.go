//go:build e2e

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (b *bed) sign(t *testing.T) { b.program(t, "sign", b.signing(t)...) }

func (b *bed) signing(t *testing.T) []string {
	return []string{"-key", b.key, "-cosign", b.cosign, "-distribution", tool(t, "DISTRIBUTION")}
}

// unsigned: what is not as it was built is not signed, and what is not signed is not pushed.
func (b *bed) unsigned(t *testing.T) {
	out, err := b.attempt(t, b.clone, "go", b.args("push", "-plain-http")...)
	assert.Error(t, err)
	assert.Contains(t, out, "which is not signed")
	refuses := func(says string) {
		out, err := b.attempt(t, b.clone, "go", b.args("sign", b.signing(t)...)...)
		assert.Error(t, err)
		assert.Contains(t, out, says)
		assert.NoFileExists(t, b.sumsPath()+signature)
	}
	for _, name := range []string{filepath.Base((&release{settings: b.settings}).program(agent, "amd64")), "more"} {
		path := filepath.Join(b.out, name)
		before, _ := os.ReadFile(path) // nil: it is not there
		require.NoError(t, os.WriteFile(path, append(before, 'x'), 0o755))
		refuses("its files are not those of SHA256SUMS")
		if before == nil {
			require.NoError(t, os.Remove(path))
			continue
		}
		require.NoError(t, os.WriteFile(path, before, 0o755))
	}
	head := strings.TrimSpace(b.command(t, b.clone, "git", "rev-parse", "HEAD"))
	b.command(t, b.clone, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--allow-empty", "--message", "another")
	b.command(t, b.clone, "git", "tag", "--force", version)
	refuses("its provenance does not name the tag's commit")
	b.command(t, b.clone, "git", "reset", "--quiet", "--hard", head)
	b.command(t, b.clone, "git", "tag", "--force", version)
}

// badSignature is in what cosign says where the signature is another key's.
const badSignature = "failed to verify signature"

// verify runs cosign's verb with a key.
func (b *bed) verify(t *testing.T, key, verb string, args ...string) (string, error) {
	t.Helper()
	return b.attempt(t, b.clone, b.cosign, append([]string{verb, "--key", key, "--insecure-ignore-tlog"}, args...)...)
}

func (b *bed) signatures(t *testing.T) {
	theirs := filepath.Join(filepath.Dir(b.public), "theirs.pub")
	text, err := os.ReadFile(filepath.Join(b.out, "digests.txt"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		reference, _, _ := strings.Cut(line, " ")
		name := b.registry + "/" + reference
		t.Run(reference, func(t *testing.T) {
			for verb, more := range map[string][]string{"verify": nil, "verify-attestation": {"--type", "slsaprovenance1"}} {
				out, err := b.verify(t, b.public, verb, append(more, name)...)
				assert.NoError(t, err, "%s: %s", verb, out)
				out, err = b.verify(t, theirs, verb, append(more, name)...)
				assert.Error(t, err, verb)
				assert.Contains(t, out, badSignature, verb)
			}
			if strings.HasPrefix(reference, "charts/") {
				return
			}
			store, top := b.pull(t, reference)
			repository, _, _ := strings.Cut(name, "@")
			for arch, img := range b.images(t, store, top) {
				image := repository + "@" + img.manifest.Digest.String()
				out, err := b.verify(t, b.public, "verify", image)
				assert.NoError(t, err, "%s: %s", arch, out)
				out, err = b.verify(t, b.public, "verify-attestation", "--type", "spdxjson", image)
				assert.NoError(t, err, "%s: %s", arch, out)
				out, err = b.verify(t, theirs, "verify-attestation", "--type", "spdxjson", image)
				assert.Error(t, err, arch)
				assert.Contains(t, out, badSignature, arch)
			}
		})
	}
}

func (b *bed) sums(t *testing.T) {
	b.command(t, b.out, "sha256sum", "--check", "--strict", "SHA256SUMS")
	sums := filepath.Join(b.out, "SHA256SUMS")
	bundle := []string{"--bundle", sums + ".sigstore.json"}
	out, err := b.verify(t, b.public, "verify-blob", append(bundle, sums)...)
	assert.NoError(t, err, out)
	out, err = b.verify(t, filepath.Join(filepath.Dir(b.public), "theirs.pub"), "verify-blob", append(bundle, sums)...)
	assert.Error(t, err)
	assert.Contains(t, out, badSignature)

	text, err := os.ReadFile(sums)
	require.NoError(t, err)
	changed := filepath.Join(t.TempDir(), "SHA256SUMS")
	require.NoError(t, os.WriteFile(changed, append(text, '\n'), 0o644))
	out, err = b.verify(t, b.public, "verify-blob", append(bundle, changed)...)
	assert.Error(t, err)
	assert.Contains(t, out, badSignature)
}

func (b *bed) bills(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(b.out, "sbom", "*.spdx.json"))
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(paths), 4)
	for _, path := range paths {
		f, err := os.Open(path)
		require.NoError(t, err)
		defer f.Close()
		doc := &spdx.Document{}
		require.NoError(t, spdxjson.ReadInto(f, doc), path)
		require.NoError(t, spdxlib.ValidateDocument(doc), path)
		names := map[string]string{}
		for _, p := range doc.Packages {
			names[p.PackageName] = p.PackageVersion
		}
		if strings.HasPrefix(filepath.Base(path), "spank_") {
			assert.Equal(t, map[string]string{spankPlugin: version}, names)
			continue
		}
		assert.Equal(t, version, names["github.com/slurmlet/slurmlet"], path)
		assert.Contains(t, names, "stdlib", path)
		if role, slurm, has := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".spdx.json"), "-"+version+"-"); has {
			slurm, _, _ = strings.Cut(slurm, "-linux-")
			if program := programs[role]; program.path != "" {
				assert.True(t, strings.HasPrefix(names[program.debian], slurm+"."), "%s: %s", path, names[program.debian])
				assert.Contains(t, names, "libc6", path)
				assert.Contains(t, names, "sssd-ldap", path)
			}
		}
	}
}

func (b *bed) provenance(t *testing.T) {
	commit := strings.TrimSpace(b.command(t, b.clone, "git", "rev-parse", "HEAD"))
	text, err := os.ReadFile(filepath.Join(b.out, "provenance.json"))
	require.NoError(t, err)
	var statement struct {
		Type      string     `json:"_type"`
		Subject   []resource `json:"subject"`
		Predicate predicate  `json:"predicate"`
	}
	require.NoError(t, json.Unmarshal(text, &statement))
	assert.Equal(t, statementType, statement.Type)
	assert.Equal(t, commit, statement.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"])
	subjects := map[string]string{}
	for _, s := range statement.Subject {
		subjects[s.Name] = s.Digest["sha256"]
	}
	for _, arch := range architectures {
		sum, err := hashOf((&release{settings: b.settings}).program(agent, arch))
		require.NoError(t, err)
		assert.Equal(t, sum, subjects[fmt.Sprintf("slurmlet-%s-linux-%s", version, arch)])
	}
	_, digest, _ := strings.Cut(b.digest(t, "agent:"+version), "@sha256:")
	assert.Equal(t, digest, subjects[b.registry+"/agent:"+version])
}
