package parts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSourcesInOneLineFormat(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []source
	}{
		"plain": {
			"deb http://mirror.example/debian trixie main contrib\n",
			[]source{{[]string{"deb"}, []string{"http://mirror.example/debian"}, []string{"trixie"}, []string{"main", "contrib"}, ""}},
		},
		"options": {
			"deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian trixie main",
			[]source{{[]string{"deb"}, []string{"http://mirror.example/debian"}, []string{"trixie"}, []string{"main"}, "/k.gpg"}},
		},
		"comments and empty lines": {
			"# deb http://a trixie main\n\n  deb-src http://b sid main # why\n",
			[]source{{[]string{"deb-src"}, []string{"http://b"}, []string{"sid"}, []string{"main"}, ""}},
		},
		"not a source":         {"hello\n", nil},
		"without its suite":    {"deb http://a\n", nil},
		"options without end":  {"deb [arch=amd64 http://a trixie main\n", nil},
		"nothing":              {"", nil},
		"a flat repository /.": {"deb http://a ./\n", []source{{[]string{"deb"}, []string{"http://a"}, []string{"./"}, []string{}, ""}}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, parseLines(tc.text)) })
	}
}

func TestSourcesInStanzas(t *testing.T) {
	const text = `# made by the installer
Types: deb deb-src
URIs: http://mirror.example/debian
 http://second.example/debian
Suites: bookworm bookworm-updates
# in between
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main


types: deb
uris: http://inline.example
suites: stable
components: main
signed-by:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 -----END PGP PUBLIC KEY BLOCK-----
`
	assert.Equal(t, []source{
		{
			types:      []string{"deb", "deb-src"},
			uris:       []string{"http://mirror.example/debian", "http://second.example/debian"},
			suites:     []string{"bookworm", "bookworm-updates"},
			components: []string{"main"},
			signedBy:   "/usr/share/keyrings/debian-archive-keyring.gpg",
		},
		{types: []string{"deb"}, uris: []string{"http://inline.example"}, suites: []string{"stable"}, components: []string{"main"}},
	}, parseStanzas(text))
}

func TestSourcesFromAllFiles(t *testing.T) {
	etc := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(etc, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("sources.list.d/debian.sources", "Types: deb\nURIs: http://b\nSuites: trixie\nComponents: main\n")
	write("sources.list.d/other.list", "deb http://a stable main\n")
	write("sources.list.d/old.sources.save", "Types: deb\nURIs: http://c\nSuites: trixie\nComponents: main\n")

	all, err := readSources(etc)
	require.NoError(t, err, "sources.list is optional")
	require.Len(t, all, 2)
	assert.Equal(t, []string{"http://a"}, all[0].uris)
	assert.Equal(t, []string{"http://b"}, all[1].uris)
}

func FuzzSources(f *testing.F) {
	f.Add("deb [signed-by=/k] http://a trixie main\n")
	f.Add("Types: deb\nURIs: http://a\n b\n\n c\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range parseLines(text) {
			assert.Len(t, s.uris, 1)
		}
		parseStanzas(text)
	})
}
