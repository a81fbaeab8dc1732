//go:build e2e

package main

import (
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/memory"

	"github.com/slurmlet/slurmlet/e2e/testbed/registry"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// version is the tag that the tests release.
const version = "v0.0.1"

// emulator runs programs of arm64. It is static.
const emulator = "/usr/bin/qemu-aarch64-static"

// bed is a release, and a registry that it was pushed to.
type bed struct {
	settings
	clone       string // where it was built
	key, public string
	environ     []string
}

// TestRelease releases a clone of HEAD, pushes it to a registry, and uses it as
// others will. RELEASE_AMD64 and RELEASE_ARM64 name other images than one of Slurm and
// the agent's, as docker-bake.hcl calls them.
func TestRelease(t *testing.T) {
	b := prepare(t)
	require.NoError(t, parts.Install(t.Context(), t.Logf, "emulation"))
	t.Run("refused", b.refused)
	b.release(t)
	t.Run("unsigned", b.unsigned)
	b.sign(t)
	b.program(t, "push", "-plain-http")
	for name, test := range map[string]func(*testing.T){
		"a tag's image has every architecture, by digest": b.pulled,
		"signatures hold for the key, and for no other":   b.signatures,
		"checksums are signed":                            b.sums,
		"SBOMs are valid SPDX":                            b.bills,
		"provenance names the commit":                     b.provenance,
		"helm takes the charts by digest":                 b.charts,
		"krew's archive has the plugin":                   b.krew,
		"arm64's programs run":                            b.foreign,
		"Slurm runs in its images":                        b.slurm,
		"the same tag gives the same bytes":               b.again,
	} {
		t.Run(name, test)
	}
}

// tool is a program that make has built.
func tool(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s is not set: run make release-test", variable)
	}
	return path
}

// or is what the environment says, else something else.
func or(variable, otherwise string) string {
	if v, set := os.LookupEnv(variable); set {
		return v
	}
	return otherwise
}

// prepare clones HEAD, tags it, makes keys and starts a registry.
func prepare(t *testing.T) *bed {
	dir := t.TempDir()
	b := &bed{clone: filepath.Join(dir, "clone"), key: filepath.Join(dir, "ours.key"), public: filepath.Join(dir, "ours.pub")}
	b.environ = append(os.Environ(), "COSIGN_PASSWORD=a test's", "HOME="+dir, "GOMODCACHE="+goEnv(t, "GOMODCACHE"),
		"GOCACHE="+goEnv(t, "GOCACHE"), "SLURMLET_CACHE="+or("SLURMLET_CACHE", filepath.Join(os.Getenv("HOME"), ".cache", "slurmlet")))
	b.cosign = tool(t, "COSIGN")
	b.command(t, dir, "git", "clone", "--quiet", "../../..", b.clone)
	b.command(t, b.clone, "git", "tag", version)
	b.command(t, dir, b.cosign, "generate-key-pair", "--output-key-prefix", "ours")
	b.command(t, dir, b.cosign, "generate-key-pair", "--output-key-prefix", "theirs")
	there, err := registry.Start(t.Context(), tool(t, "DISTRIBUTION"), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(there.Stop)
	b.settings = settings{
		version: version, registry: there.Address + "/slurmlet", out: filepath.Join(dir, "released"), cosign: b.cosign,
		helm: tool(t, "HELM"), plainHTTP: true,
	}
	return b
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// attempt runs a command, and returns all that it says.
func (b *bed) attempt(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	if dir != b.clone && name == "git" {
		dir = "" // the clone's source is relative to this package
	}
	cmd.Dir, cmd.Env = dir, b.environ
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// command runs a command that must succeed.
func (b *bed) command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := b.attempt(t, dir, name, args...)
	require.NoError(t, err, "%s %s:\n%s", name, strings.Join(args, " "), out)
	return out
}

// program runs this package's program in the clone.
func (b *bed) program(t *testing.T, verb string, more ...string) {
	t.Helper()
	b.command(t, b.clone, "go", b.args(verb, more...)...)
}

func (b *bed) args(verb string, more ...string) []string {
	return append([]string{"run", "./e2e/ships/release", verb, "-version", version, "-registry", b.registry, "-out", b.out}, more...)
}

func (b *bed) release(t *testing.T) {
	t.Helper()
	b.program(
		t, "build", "-amd64", or("RELEASE_AMD64", "agent controller web slurmctld-24-11 slurmctld-26-05"), "-arm64", or("RELEASE_ARM64", "agent controller web"),
		"-helm", b.helm, "-buildx", tool(t, "BUILDX"), "-buildkitd", tool(t, "BUILDKITD"), "-cache", tool(t, "BUILDKIT_CACHE"),
	)
}

func (b *bed) refused(t *testing.T) {
	for _, c := range []struct{ name, file, version, verb, says string }{
		{"a changed checkout", "new", version, "build", "cannot release a changed checkout:\n?? new"},
		{"a tag that is not there", "", "v0.0.2", "build", "cannot release v0.0.2: there is no such tag"},
		{"a version without a v", "", "0.0.1", "build", `want a version such as v0.1.0, not "0.0.1"`},
		{"no key", "", version, "sign", "want a key that signs"},
		{"nothing built", "", version, "sign -key=k", "cannot sign what is not built"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.file != "" {
				name := filepath.Join(b.clone, c.file)
				require.NoError(t, os.WriteFile(name, nil, 0o644))
				t.Cleanup(func() { os.Remove(name) })
			}
			verb, flag, _ := strings.Cut(c.verb, " ")
			more := strings.Fields(flag)
			out, err := b.attempt(t, b.clone, "go", append(b.args(verb, more...), "-version", c.version)...)
			assert.Error(t, err)
			assert.Contains(t, out, c.says)
			assert.NoDirExists(t, b.out)
		})
	}
	t.Run("another commit", func(t *testing.T) {
		b.command(t, b.clone, "git", "tag", "v0.0.3", "HEAD~1")
		out, err := b.attempt(t, b.clone, "go", append(b.args("build"), "-version", "v0.0.3")...)
		assert.Error(t, err)
		assert.Contains(t, out, "cannot release v0.0.3: the tag names commit ")
	})
}

// digest is what digests.txt says of an artifact: repository@sha256:….
func (b *bed) digest(t *testing.T, artifact string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.out, "digests.txt"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		reference, tag, _ := strings.Cut(strings.TrimSpace(line), " ")
		if repository, _, _ := strings.Cut(reference, "@"); repository+":"+tag == artifact {
			return reference
		}
	}
	t.Fatalf("digests.txt has no %s:\n%s", artifact, text)
	return ""
}

// pull fetches an artifact from the registry by its digest.
func (b *bed) pull(t *testing.T, reference string) (*memory.Store, v1.Descriptor) {
	t.Helper()
	repository, digest, _ := strings.Cut(reference, "@")
	from, err := b.remote(repository)
	require.NoError(t, err)
	to := memory.New()
	top, err := oras.Copy(t.Context(), from, digest, to, digest, oras.DefaultCopyOptions)
	require.NoError(t, err)
	return to, top
}

// images are those of the pulled index.
func (b *bed) images(t *testing.T, store *memory.Store, top v1.Descriptor) map[string]*image {
	t.Helper()
	var index v1.Index
	require.NoError(t, getJSON(t.Context(), store, top, &index))
	all := map[string]*image{}
	for _, d := range index.Manifests {
		img := &image{manifest: d}
		var manifest v1.Manifest
		require.NoError(t, getJSON(t.Context(), store, d, &manifest))
		require.NoError(t, getJSON(t.Context(), store, manifest.Config, &img.config))
		img.layers = manifest.Layers
		assert.Equal(t, img.config.Architecture, d.Platform.Architecture)
		all[d.Platform.Architecture] = img
	}
	return all
}

func (b *bed) pulled(t *testing.T) {
	for repository, program := range map[string]string{"agent": agent, "controller": controller, "web": web} {
		store, top := b.pull(t, b.digest(t, repository+":"+version))
		all := b.images(t, store, top)
		require.Len(t, all, len(architectures))
		for _, arch := range architectures {
			got, err := file(t.Context(), store, all[arch], program)
			require.NoError(t, err)
			want, err := os.ReadFile((&release{settings: b.settings}).program(program, arch))
			require.NoError(t, err)
			assert.Equal(t, want, got, "the image %s for %s has the program", repository, arch)
			assert.Equal(t, version, all[arch].config.Config.Labels[v1.AnnotationVersion])
		}
	}
	_, top := b.pull(t, b.digest(t, "agent:"+version))
	remote, err := b.remote("agent")
	require.NoError(t, err)
	byTag, err := remote.Resolve(t.Context(), version)
	require.NoError(t, err)
	assert.Equal(t, top.Digest, byTag.Digest)
}

// charts: each names this version's image, as helm pulls it out of the registry.
func (b *bed) charts(t *testing.T) {
	number := strings.TrimPrefix(version, "v")
	for chart, image := range map[string]string{"slurm": "slurmctld:" + version + "-26.05", "slurmlet": "controller:" + version} {
		t.Run(chart, func(t *testing.T) {
			name := "oci://" + b.registry + "/" + b.digest(t, "charts/"+chart+":"+number)
			dir := t.TempDir()
			b.command(t, dir, b.helm, "pull", "--plain-http", name)
			packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
			require.NoError(t, err)
			require.Len(t, packed, 1)
			got, err := hashOf(packed[0])
			require.NoError(t, err)
			want, err := hashOf((&release{settings: b.settings}).packed(chart))
			require.NoError(t, err)
			assert.Equal(t, want, got)

			manifests := b.command(t, dir, b.helm, "template", chart, "--plain-http", name)
			assert.Contains(t, manifests, "image: "+b.registry+"/"+image+"\n")
			byVersion := b.command(t, dir, b.helm, "show", "chart", "--plain-http", "oci://"+b.registry+"/charts/"+chart, "--version", number)
			assert.Contains(t, byVersion, "appVersion: "+version)
		})
	}
}

// krew: the archive for this machine has the sum that the manifest says, and a plugin that runs.
func (b *bed) krew(t *testing.T) {
	r := &release{settings: b.settings}
	manifest, err := os.ReadFile(r.krewManifest())
	require.NoError(t, err)
	packed := r.plugin("linux", "amd64") + ".tar.gz"
	sum, err := hashOf(packed)
	require.NoError(t, err)
	uri := homepage + "/releases/download/" + version + "/" + filepath.Base(packed)
	assert.Regexp(t, `uri: `+regexp.QuoteMeta(uri)+`\n +sha256: `+sum+`\n`, string(manifest))
	dir := t.TempDir()
	b.command(t, dir, "tar", "--extract", "--gzip", "--file", packed)
	assert.FileExists(t, filepath.Join(dir, "LICENSE"))
	assert.Equal(t, "kubectl-slurm "+version+"\n", b.command(t, dir, "./kubectl-slurm", "--version"))
}

func (b *bed) foreign(t *testing.T) {
	emulated := func(name string, args ...string) (string, error) {
		program := (&release{settings: b.settings}).program(name, "arm64")
		return b.attempt(t, b.clone, emulator, append([]string{program}, args...)...)
	}
	out, err := emulated(agent, "version")
	assert.NoError(t, err)
	assert.Equal(t, "slurmlet "+version+"\n", out)
	out, err = emulated(agent, "check", "-slurm-version", "24.11", "e2e/ships/hooks/testdata/good")
	assert.NoError(t, err, out)
	out, err = emulated(agent, "check", "-slurm-version", "24.11", "e2e/ships/hooks/testdata/bad")
	assert.Error(t, err)
	assert.Contains(t, out, "RealMemory")
	out, err = emulated(controller, "version")
	assert.NoError(t, err, out)
	assert.Equal(t, "slurmlet-controller "+version+"\n", out)
	out, err = emulated(web, "-version")
	assert.NoError(t, err, out)
	assert.Equal(t, "slurmlet-web "+version+"\n", out)
	r := &release{settings: b.settings}
	out, err = b.attempt(t, b.clone, emulator, r.plugin("linux", "arm64"), "--version")
	assert.NoError(t, err, out)
	assert.Equal(t, "kubectl-slurm "+version+"\n", out)
	out, err = emulated(containers, "version")
	assert.NoError(t, err, out)
	assert.Equal(t, version+"\n", out)
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		plugin, err := elf.Open(r.spank(arch))
		require.NoError(t, err)
		assert.Equal(t, machine, plugin.Machine)
		require.NoError(t, plugin.Close())
	}
	magic := make([]byte, 4)
	for _, arch := range architectures {
		file, err := os.Open(r.plugin("darwin", arch))
		require.NoError(t, err)
		_, err = io.ReadFull(file, magic)
		require.NoError(t, errors.Join(err, file.Close()))
		assert.Equal(t, []byte{0xcf, 0xfa, 0xed, 0xfe}, magic, "a program of macOS (Mach-O, 64 bit)")
	}
}

// programs are what a role's image is for, and the Debian package that it is of.
var programs = map[string]struct{ path, debian string }{
	"slurmctld":  {"usr/sbin/slurmctld", "slurmctld"},
	"slurmd":     {"usr/sbin/slurmd", "slurmd"},
	"slurmdbd":   {"usr/sbin/slurmdbd", "slurmdbd"},
	"slurmrestd": {"usr/sbin/slurmrestd", "slurmrestd"},
	"login":      {"usr/bin/sinfo", "slurm-client"},
}

// slurm: the program of each of Slurm's images finds its libraries, on each architecture.
func (b *bed) slurm(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(b.out, "digests.txt"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		reference, tag, _ := strings.Cut(strings.TrimSpace(line), " ")
		role, _, _ := strings.Cut(reference, "@")
		program, has := programs[role]
		if !has {
			continue
		}
		store, top := b.pull(t, reference)
		for arch, img := range b.images(t, store, top) {
			t.Run(role+" "+tag+" "+arch, func(t *testing.T) {
				root := b.unpack(t, store, img)
				require.NoError(t, os.WriteFile(filepath.Join(root, "slurm.conf"), []byte("ClusterName=c\nSlurmctldHost=c\n"), 0o644))
				b.command(t, root, "cp", emulator, "emulator")
				run := map[string][]string{"amd64": {"/" + program.path, "-V"}, "arm64": {"/emulator", "/" + program.path, "-V"}}[arch]
				out, err := b.attempt(t, root, "env", append([]string{"SLURM_CONF=/slurm.conf", "chroot", root}, run...)...)
				if role == "slurmdbd" { // it reads its configuration before its arguments
					assert.Contains(t, out, "fatal: StorageType must be specified")
					return
				}
				assert.NoError(t, err, out)
				assert.Regexp(t, `^slurm(-wlm)? `+regexp.QuoteMeta(strings.TrimPrefix(tag, version+"-"))+`\.`, out)
			})
		}
	}
}

// unpack makes a directory of an image's layers.
func (b *bed) unpack(t *testing.T, store *memory.Store, img *image) string {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	require.NoError(t, os.Mkdir(root, 0o755))
	for _, layer := range img.layers {
		packed, err := content.FetchAll(t.Context(), store, layer)
		require.NoError(t, err)
		name := filepath.Join(dir, "layer")
		require.NoError(t, os.WriteFile(name, packed, 0o600))
		b.command(t, root, "tar", "--extract", "--gzip", "--exclude=dev", "--file", name)
	}
	return root
}

// again builds the release once more. Signatures differ, and only they.
func (b *bed) again(t *testing.T) {
	other := *b
	other.out = filepath.Join(t.TempDir(), "again")
	other.release(t)
	want, err := os.ReadFile(filepath.Join(b.out, "SHA256SUMS"))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(other.out, "SHA256SUMS"))
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
}
