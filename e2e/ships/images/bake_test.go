package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// target is one of `buildx bake --print`.
type target struct {
	Target     string            `json:"target"`
	Dockerfile string            `json:"dockerfile"`
	Tags       []string          `json:"tags"`
	Args       map[string]string `json:"args"`
	Labels     map[string]string `json:"labels"`
	Contexts   map[string]string `json:"contexts"`
	Platforms  []string          `json:"platforms"`
	Attest     []map[string]any  `json:"attest"`
}

// plan returns all targets, with variables of the environment set.
func plan(t *testing.T, environ ...string) map[string]target {
	t.Helper()
	buildx := os.Getenv("BUILDX")
	if buildx == "" {
		t.Skip("BUILDX is not set: run make charts")
	}
	cmd := exec.CommandContext(t.Context(), buildx, "bake", "--print", "--progress=quiet", "agent", "controller", "web", "role", "pyxis")
	cmd.Dir = "../../.."
	cmd.Env = append(append(os.Environ(), "BUILDX_CONFIG="+t.TempDir()), environ...)
	out, err := cmd.Output()
	require.NoError(t, err)
	var p struct {
		Target map[string]target `json:"target"`
	}
	require.NoError(t, json.Unmarshal(out, &p))
	return p.Target
}

func TestEveryRoleHasAnImageInEveryVersion(t *testing.T) {
	all := plan(t)
	for _, version := range []struct{ dashed, slurm, debian string }{{"24-11", "24.11", "docker.io/library/debian:trixie-slim"}, {"26-05", "26.05", "docker.io/library/debian:forky-slim"}} {
		for _, role := range []string{"slurmctld", "slurmd", "login", "slurmdbd", "slurmrestd"} {
			it := all[role+"-"+version.dashed]
			assert.Equal(t, role, it.Target)
			assert.Equal(t, []string{"localhost/slurmlet/" + role + ":dev-" + version.slurm}, it.Tags)
			assert.Equal(t, version.debian, it.Args["DEBIAN"])
			assert.Equal(t, version.slurm+".*", it.Args["SLURM_VERSION"])
			assert.Equal(t, version.slurm, it.Args["SLURM_RELEASE"])
			assert.NotEmpty(t, it.Args["PACKAGES"])
			assert.Equal(t, []string{"linux/amd64", "linux/arm64"}, it.Platforms)
			assert.NotEmpty(t, it.Labels["org.opencontainers.image.description"])
			assert.Empty(t, it.Attest)
		}
		for _, role := range []string{"slurmd", "login"} {
			it := all[role+"-pyxis-"+version.dashed]
			assert.Equal(t, role+"-pyxis", it.Target)
			assert.Contains(t, it.Contexts, "pyxis")
		}
	}
	assert.Equal(t, "agent", all["agent"].Target)
	assert.Equal(t, "controller", all["controller"].Target)
	assert.Equal(t, []string{"localhost/slurmlet/controller:dev"}, all["controller"].Tags)
	assert.Equal(t, "web", all["web"].Target)
	assert.Equal(t, []string{"localhost/slurmlet/web:dev"}, all["web"].Tags)
	assert.Len(t, all, 3+2*5+2*2)
}

func TestImagesCanBePinned(t *testing.T) {
	it := plan(t, "REGISTRY=registry.example/hpc", "TAG=v1", "SLURM_24_11=24.11.5-4+deb13u1", "DEBIAN_24_11=debian@sha256:0", "APT_SOURCES=Types: deb")["slurmd-24-11"]
	assert.Equal(t, []string{"registry.example/hpc/slurmd:v1-24.11"}, it.Tags)
	assert.Equal(t, "24.11.5-4+deb13u1", it.Args["SLURM_VERSION"])
	assert.Equal(t, "debian@sha256:0", it.Args["DEBIAN"])
	assert.Equal(t, "Types: deb", it.Args["APT_SOURCES"])
}

// TestSquashfuse is where jobs run: where they are submitted, nobody mounts an image.
func TestSquashfuse(t *testing.T) {
	for name, it := range plan(t) {
		assert.Equal(t, strings.HasPrefix(name, "slurmd-"), slices.Contains(strings.Fields(it.Args["PACKAGES"]), "squashfuse"), name)
	}
}

// TestExtraPackages: slurmctld's prologs need them, and slurmctld and slurmdbd look users up.
func TestExtraPackages(t *testing.T) {
	all := plan(t, "EXTRA_PACKAGES=sssd")
	for _, role := range []string{"slurmctld", "slurmd", "login", "slurmdbd"} {
		assert.Contains(t, all[role+"-24-11"].Args["PACKAGES"], " sssd", role)
	}
	assert.NotContains(t, all["slurmrestd-24-11"].Args["PACKAGES"], "sssd")
}

// TestSSSDIsInEveryImage: forky has none, so 26.05 takes it from another suite of the same mirror.
func TestSSSDIsInEveryImage(t *testing.T) {
	all := plan(t)
	none := plan(t, "SSSD_PACKAGES=")
	for _, role := range []string{"slurmctld", "slurmd", "login", "slurmdbd", "slurmrestd"} {
		for dashed, suite := range map[string]string{"24-11": "", "26-05": "sid"} {
			name := role + "-" + dashed
			assert.Equal(t, "sssd-ldap libnss-sss libpam-sss", all[name].Args["SSSD_PACKAGES"], name)
			assert.Equal(t, suite, all[name].Args["SSSD_SUITE"], name)
			assert.Empty(t, none[name].Args["SSSD_PACKAGES"]+none[name].Args["SSSD_SUITE"], name)
		}
	}
	assert.Equal(t, "https://a/b.dsc", plan(t, "SLURM_SOURCE_26_05=https://a/b.dsc")["slurmd-26-05"].Args["SLURM_SOURCE"])
}

// TestVersionIsAsserted: apt installs another version where none matches a pin.
func TestVersionIsAsserted(t *testing.T) {
	const lacks = " was installed: it lacks the fixes of CVE-2026-65107"
	for name, c := range map[string]struct {
		pin, release, installed, says string
	}{
		"a pattern":               {"24.11.*", "24.11", "24.11.5-4+deb13u1", ""},
		"a version":               {"24.11.5-4+deb13u1", "24.11", "24.11.5-4+deb13u1", ""},
		"a later one":             {"24.11.*", "24.11", "24.11.5-4+deb13u2", ""},
		"a pin of none":           {"24.11.6-1", "24.11", "24.11.5-4+deb13u1", "slurmd 24.11.5-4+deb13u1 was installed: no version matches the pin 24.11.6-1"},
		"another release":         {"24.*", "24.05", "24.11.5-4+deb13u1", "slurmd 24.11.5-4+deb13u1 was installed: the image's tag says 24.05"},
		"one that Debian mends":   {"24.11.5-4", "24.11", "24.11.5-4", "slurmd 24.11.5-4" + lacks},
		"one that upstream mends": {"26.05.*", "26.05", "26.05.4-1", "slurmd 26.05.4-1" + lacks},
		"a mended one":            {"26.05.*", "26.05", "26.05.5-1", ""},
		"a rebuild of one's own":  {"26.05.*", "26.05", "26.05.5-1~site1", ""},
		"a release of one's own":  {"26.11.*", "26.11", "26.11.0-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			query := "#!/bin/sh\nprintf '%s\\n' 'glibc 2.41-12 libc6' 'slurm-wlm " + c.installed + " slurmd'\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "dpkg-query"), []byte(query), 0o755))
			check := exec.CommandContext(t.Context(), "sh", "../../../images/assert-slurm")
			check.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "SLURM_VERSION=" + c.pin, "SLURM_RELEASE=" + c.release}
			out, err := check.CombinedOutput()
			assert.Equal(t, c.says != "", err != nil)
			said := strings.TrimSpace(string(out))
			if strings.HasSuffix(c.says, lacks) {
				assert.True(t, strings.HasPrefix(said, c.says), said)
				assert.Contains(t, said, "or later (SLURM_"+strings.ReplaceAll(c.release, ".", "_"))
				return
			}
			assert.Equal(t, c.says, said)
		})
	}
}

func TestAttestationsAreSwitchedOn(t *testing.T) {
	var types []any
	for _, a := range plan(t, "ATTEST=1")["slurmctld-26-05"].Attest {
		types = append(types, a["type"])
	}
	assert.ElementsMatch(t, []any{"sbom", "provenance"}, types)
}
