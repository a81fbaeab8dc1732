package parts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCodename(t *testing.T) {
	assert.Equal(t, "trixie", codename("PRETTY_NAME=\"Debian\"\nVERSION_CODENAME=trixie\nID=debian\n"))
	assert.Equal(t, "forky", codename("VERSION_CODENAME=\"forky\"\n"))
	assert.Empty(t, codename("ID=debian\n"))
}

func TestTheMirrorIsTheReleasesOwn(t *testing.T) {
	deb := func(uri, suite, component string) source {
		return source{types: []string{"deb"}, uris: []string{uri}, suites: []string{suite}, components: []string{component}}
	}
	for name, tc := range map[string]struct {
		sources []source
		want    string
	}{
		"security and foreign sources are passed over": {
			[]source{
				deb("http://vendor", "bookworm", "stable"),
				deb("http://security", "bookworm-security", "main"),
				deb("http://mirror", "bookworm", "main"),
			}, "http://mirror",
		},
		"a release by its role": {[]source{deb("http://mirror", "oldstable", "main")}, "http://mirror"},
		"sources alone are not enough": {
			[]source{
				{types: []string{"deb-src"}, uris: []string{"http://src"}, suites: []string{"bookworm"}, components: []string{"main"}},
				deb("http://mirror", "bookworm", "main"),
			}, "http://mirror",
		},
		"another release": {[]source{deb("http://mirror", "jammy", "main")}, ""},
		"none":            {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := findMirror(tc.sources, "bookworm")
			if tc.want == "" {
				assert.ErrorContains(t, err, "cannot find a Debian mirror")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, []string{tc.want}, m.uris)
		})
	}
}

func TestMirrorLinesNameAnotherSuite(t *testing.T) {
	m := mirror{uris: []string{"http://a/debian", "http://b"}, keyring: "/k.gpg"}
	assert.Equal(t, []string{
		"deb [signed-by=/k.gpg] http://a/debian forky main",
		"deb [signed-by=/k.gpg] http://b forky main",
	}, m.lines("forky"))
}
