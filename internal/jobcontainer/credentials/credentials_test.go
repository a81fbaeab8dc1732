package credentials

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseNetrc(t *testing.T) {
	text := "# a comment\nmachine a login ann password one\nmachine b\n  login bob\n  password two\n" +
		"machine c login $oauthtoken password $(echo 'a b' | cat)\ndefault login d password three\nmachine e login e"
	assert.Equal(t, []login{
		{"a", "ann", "one"}, {"b", "bob", "two"}, {"c", "$oauthtoken", "$(echo 'a b' | cat)"}, {"", "d", "three"}, {"e", "e", ""},
	}, parseNetrc(text))
}

// FuzzParseNetrc: no login has a space in what is one word.
func FuzzParseNetrc(f *testing.F) {
	f.Add("machine a login b password $(c d)\nmachine\tb login")
	f.Fuzz(func(t *testing.T, text string) {
		for _, l := range parseNetrc(text) {
			require.NotContains(t, l.machine+l.user, " ")
		}
	})
}

// write makes files in a home directory.
func write(t *testing.T, home string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		to := filepath.Join(home, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
		require.NoError(t, os.WriteFile(to, []byte(text), 0o700))
	}
}

const (
	enroots = ".config/enroot/.credentials"
	dockers = ".docker/config.json"
	podmans = ".config/containers/auth.json"
)

func TestFind(t *testing.T) {
	login := func(registry, auth string) string { return `{"auths": {"` + registry + `": {"auth": "` + auth + `"}}}` }
	const ann, bob = "YW5uOm9uZQ==", "Ym9iOnR3bw==" // ann:one, bob:two
	for name, c := range map[string]struct {
		files             map[string]string
		repository, user  string
		wantUser, wantKey string
		from              string
	}{
		"nothing":                {repository: "r.example/a"},
		"another registry's":     {files: map[string]string{dockers: login("s.example", ann)}, repository: "r.example/a"},
		"docker's":               {map[string]string{dockers: login("r.example", ann)}, "r.example/a", "", "ann", "one", dockers},
		"docker's of Docker Hub": {map[string]string{dockers: login("https://index.docker.io/v1/", ann)}, "ubuntu", "", "ann", "one", dockers},
		"podman's":               {map[string]string{podmans: login("r.example", ann)}, "r.example/a", "", "ann", "one", podmans},
		"podman's where docker's has none": {
			map[string]string{dockers: `{"auths": {}}`, podmans: login("r.example", ann)}, "r.example/a", "", "ann", "one", podmans,
		},
		"podman's of a part": {map[string]string{podmans: login("r.example/team", ann)}, "r.example/team/a", "", "ann", "one", podmans},
		"enroot's come first": {
			map[string]string{enroots: "machine r.example login bob password two", dockers: login("r.example", ann)},
			"r.example/a", "", "bob", "two", enroots,
		},
		"the user who is named": {
			map[string]string{enroots: "machine r.example login bob password two", dockers: login("r.example", ann)},
			"r.example/a", "ann", "ann", "one", dockers,
		},
		"enroot's with a port":       {map[string]string{enroots: "machine r.example login bob password two"}, "r.example:5000/a", "", "bob", "two", enroots},
		"enroot's of Docker Hub":     {map[string]string{enroots: "machine auth.docker.io login bob password two"}, "ubuntu", "", "bob", "two", enroots},
		"enroot's that a shell says": {map[string]string{enroots: "machine r.example login AWS password $(printf '%s\\n' 'x y')"}, "r.example/a", "", "AWS", "x y", enroots},
		"a helper's": {
			map[string]string{
				dockers:                      `{"credHelpers": {"r.example": "test"}}`,
				"bin/docker-credential-test": "#!/bin/sh\nread where; [ \"$1 $where\" = 'get r.example' ] && echo '{\"Username\":\"ann\",\"Secret\":\"one\"}'\n",
			}, "r.example/a", "", "ann", "one", dockers,
		},
		"a store's": {
			map[string]string{
				dockers: `{"credsStore": "test"}`,
				"bin/docker-credential-test": "#!/bin/sh\nread where; [ \"$where\" = r.example ] && echo '{\"Username\":\"bob\",\"Secret\":\"two\"}' && exit\n" +
					"echo credentials not found in native keychain; exit 1\n",
			}, "r.example/a", "", "bob", "two", dockers,
		},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			write(t, home, c.files)
			t.Setenv("PATH", filepath.Join(home, "bin")+":"+os.Getenv("PATH"))
			found, err := Of(func(v string) string { return map[string]string{"HOME": home}[v] }).Find(t.Context(), repository(t, c.repository), c.user)
			require.NoError(t, err)
			got, err := found.Authorization()
			require.NoError(t, err)
			assert.Equal(t, authn.AuthConfig{Username: c.wantUser, Password: c.wantKey}, authn.AuthConfig{Username: got.Username, Password: got.Password})
			if c.from != "" {
				c.from = filepath.Join(home, c.from)
			}
			assert.Equal(t, c.from, found.From)
		})
	}
}

func repository(t *testing.T, text string) name.Repository {
	t.Helper()
	r, err := name.NewRepository(text)
	require.NoError(t, err)
	return r
}

// TestFindFails: what cannot be read is no stranger's visit, and no secret is in an error.
func TestFindFails(t *testing.T) {
	for why, c := range map[string]struct {
		files map[string]string
		user  string
	}{
		"there are no credentials of ann": {nil, "ann"},
		"cannot take credentials from":    {map[string]string{dockers: `{"auths": `}, ""},
		"cannot evaluate the password":    {map[string]string{enroots: "machine r.example login a password $(echo secret; exit 3)"}, ""},
		"it is empty":                     {map[string]string{enroots: "machine r.example login a password $(true)"}, ""},
	} {
		home := t.TempDir()
		write(t, home, c.files)
		_, err := Of(func(v string) string { return map[string]string{"HOME": home}[v] }).Find(t.Context(), repository(t, "r.example/a"), c.user)
		assert.ErrorContains(t, err, why)
		assert.NotContains(t, err.Error(), "secret")
	}
}

func TestOf(t *testing.T) {
	of := func(environ map[string]string) string {
		return Of(func(v string) string { return environ[v] }).String()
	}
	assert.Equal(t, "/h/.config/enroot/.credentials, /h/.docker/config.json, /h/.config/containers/auth.json", of(map[string]string{"HOME": "/h"}))
	assert.Equal(t, "/e/.credentials, /d/config.json, /r/containers/auth.json, /c/containers/auth.json", of(map[string]string{
		"HOME": "/h", "ENROOT_CONFIG_PATH": "/e", "DOCKER_CONFIG": "/d", "XDG_RUNTIME_DIR": "/r", "XDG_CONFIG_HOME": "/c",
	}))
	assert.Equal(t, "/h/.config/enroot/.credentials, /h/.docker/config.json, /a", of(map[string]string{"HOME": "/h", "REGISTRY_AUTH_FILE": "/a"}))
}
