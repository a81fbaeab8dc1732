package main

import (
	"archive/tar"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/assert"
)

func imageOf(user string, headers ...*tar.Header) *image {
	img := newImage()
	img.config.Config.User = user
	img.config.Config.Entrypoint = []string{"slurmlet", "slurmctld"}
	img.config.Config.Labels = map[string]string{"org.opencontainers.image.title": "t"}
	img.add(&tar.Header{Name: "usr/local/bin/slurmlet", Mode: 0o755, Typeflag: tar.TypeReg})
	for _, h := range headers {
		img.add(h)
	}
	return img
}

func file(name string, mode int64) *tar.Header {
	return &tar.Header{Name: name, Mode: mode, Typeflag: tar.TypeReg}
}

func TestFaultsOfAnImage(t *testing.T) {
	for name, c := range map[string]struct {
		img  *image
		want []string
	}{
		"none":                     {imageOf("64030:64030"), nil},
		"a setuid file":            {imageOf("64030:64030", file("./usr/bin/su", 0o4755)), []string{"/usr/bin/su has mode 4755"}},
		"one that a layer changes": {imageOf("64030:64030", file("usr/bin/su", 0o4755), file("usr/bin/su", 0o755)), nil},
		"one that a layer removes": {imageOf("64030:64030", file("usr/bin/su", 0o4755), file("usr/bin/.wh.su", 0)), nil},
		"a key, though removed": {
			imageOf("64030:64030", file("etc/munge/munge.key", 0o600), file("etc/munge/.wh.munge.key", 0)),
			[]string{"a layer has /etc/munge/munge.key"},
		},
		"one that is too large": {large(), []string{"105.1 MB are pulled, more than 105.0 MB"}},
		"a daemon as root":      {imageOf(""), []string{"slurmctld runs as root"}},
	} {
		assert.Equal(t, c.want, c.img.faults(), name)
	}
}

func TestImagesHaveWhatJobsInContainersNeed(t *testing.T) {
	whole := []*tar.Header{
		file("usr/local/bin/slurmlet-container", 0o755), file("usr/local/bin/slurmlet-import", 0o755), file("opt/slurmlet/spank_slurmlet.so", 0o644),
		file("usr/bin/sqfstar", 0o755), file("usr/bin/squashfuse_ll", 0o755),
	}
	for _, c := range []struct {
		role, title string
		files       []*tar.Header
		want        []string
	}{
		{"slurmd", "slurmlet slurmd", whole, nil},
		{"slurmd", "slurmlet slurmd", whole[:1], []string{
			"it has no /usr/local/bin/slurmlet-import", "it has no /opt/slurmlet/spank_slurmlet.so",
			"it has no /usr/bin/sqfstar", "it has no /usr/bin/squashfuse_ll",
		}},
		{"login", "slurmlet login", whole[:4], nil},
		{"login", "slurmlet login", whole[1:4], []string{"it has no /usr/local/bin/slurmlet-container"}},
		{"slurmd", "slurmlet slurmd with pyxis", nil, nil},
	} {
		img := imageOf("", c.files...)
		img.config.Config.Entrypoint[1] = c.role
		img.config.Config.Labels["org.opencontainers.image.title"] = c.title
		assert.Equal(t, c.want, img.faults(), c)
	}
}

func TestTheImageOfTheAgent(t *testing.T) {
	var whole []*tar.Header
	for _, name := range ofAgent {
		whole = append(whole, file(name, 0o755))
	}
	for _, c := range []struct {
		files []*tar.Header
		want  []string
	}{
		{whole, nil},
		{whole[:1], []string{`it has ["slurmlet"], not ["slurmlet" "slurmlet-container" "slurmlet-import" "spank_slurmlet.so"]`}},
	} {
		img := newImage()
		for _, h := range c.files {
			img.add(h)
		}
		img.config.Config.Entrypoint = []string{"/slurmlet"}
		assert.Equal(t, c.want, img.faults())
	}
}

func large() *image {
	img := imageOf("64030:64030")
	img.compressed = 105.1e6
	return img
}

func TestPrivateKeysAreFoundInLayers(t *testing.T) {
	for text, want := range map[string][]string{
		"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl": {"opt/key"},
		"-----BEGIN PRIVATE KEY-----\nMC4C":         {"opt/key"},
		"-----BEGIN CERTIFICATE-----\nMIIB":         nil,
		"PRIVATE KEY":                               nil,
		"":                                          nil,
	} {
		l := &layer{}
		assert.NoError(t, l.look(file("./opt/key", 0o600), strings.NewReader(text)))
		assert.Equal(t, want, l.keys, text)
	}
}

// TestAptTakesNoOldLists: with such a setting, apt takes a list of packages that a mirror has kept since a fault in them
// became known.
func TestAptTakesNoOldLists(t *testing.T) {
	const lax = "Acquire::Check-Valid-Until \"false\";\n"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"etc/apt/apt.conf.d/99mmdebstrap", lax, []string{"/etc/apt/apt.conf.d/99mmdebstrap has apt take lists that are too old"}},
		{"etc/apt/apt.conf", "// a comment\nacquire::check-valid-until no;\n", []string{"/etc/apt/apt.conf has apt take lists that are too old"}},
		{"etc/apt/apt.conf.d/minimal", "APT::Install-Recommends \"false\";\n", nil},
		{"opt/apt.conf.d/99", lax, nil},
	} {
		h, img := file(c.name, 0o644), imageOf("64030:64030")
		l := &layer{files: []*tar.Header{h}}
		assert.NoError(t, l.look(h, strings.NewReader(c.text)))
		img.merge(l)
		assert.Equal(t, c.want, img.faults(), c.name)
		img.merge(&layer{files: []*tar.Header{file(c.name, 0o644)}})
		assert.Empty(t, img.faults(), "a later layer writes %s anew", c.name)
	}
}

func TestLayersOfOneImageAlone(t *testing.T) {
	img := imageOf("1")
	img.manifest.Layers = []v1.Descriptor{{Digest: "sha256:a", Size: 30}, {Digest: "sha256:b", Size: 4}}
	assert.EqualValues(t, 4, img.alone(map[digest.Digest]int{"sha256:a": 5, "sha256:b": 1}))
}

func TestAnOpaqueDirectoryHidesWhatWasInIt(t *testing.T) {
	img := imageOf("1", file("opt/a", 0o644), file("opt/b/c", 0o644), file("opt/.wh..wh..opq", 0), file("opt/d", 0o644))
	assert.NotContains(t, img.files, "opt/a")
	assert.NotContains(t, img.files, "opt/b/c")
	assert.Contains(t, img.files, "opt/d")
}
