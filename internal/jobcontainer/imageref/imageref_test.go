package imageref

import (
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const sum = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, user, image, file string }{
		{"ubuntu", "", "index.docker.io/library/ubuntu:latest", "ubuntu.sqsh"},
		{"docker://ubuntu:24.04", "", "index.docker.io/library/ubuntu:24.04", "ubuntu+24.04.sqsh"},
		{"docker://nvcr.io#nvidia/pytorch:24.05-py3", "", "nvcr.io/nvidia/pytorch:24.05-py3", "nvidia+pytorch+24.05-py3.sqsh"},
		{"nvcr.io/nvidia/pytorch:24.05-py3", "", "nvcr.io/nvidia/pytorch:24.05-py3", "nvidia+pytorch+24.05-py3.sqsh"},
		{"docker://$oauthtoken@nvcr.io#nvidia/cuda", "$oauthtoken", "nvcr.io/nvidia/cuda:latest", "nvidia+cuda.sqsh"},
		{"docker://ann@corp.example@registry.example:5000#a/b:c", "ann@corp.example", "registry.example:5000/a/b:c", "a+b+c.sqsh"},
		{"docker://ann@ubuntu:24.04", "ann", "index.docker.io/library/ubuntu:24.04", "ubuntu+24.04.sqsh"},
		{"docker://registry-1.docker.io#ubuntu", "", "index.docker.io/library/ubuntu:latest", "ubuntu.sqsh"},
		{"docker.io/library/ubuntu", "", "index.docker.io/library/ubuntu:latest", "ubuntu.sqsh"},
		{"docker://short#a", "", "short/a:latest", "a.sqsh"},
		{"docker://short#a@" + sum, "", "short/a@" + sum, "a+0123456789ab.sqsh"},
		{"localhost:5000/a", "", "localhost:5000/a:latest", "a.sqsh"},
		{"registry.example/a@" + sum, "", "registry.example/a@" + sum, "a+0123456789ab.sqsh"},
		{"ann@registry.example#a@" + sum, "ann", "registry.example/a@" + sum, "a+0123456789ab.sqsh"},
		{"ubuntu:24.04@" + sum, "", "index.docker.io/library/ubuntu@" + sum, "ubuntu+0123456789ab.sqsh"},
		{"docker-archive:/data/image.tar", "", "/data/image.tar", "image.sqsh"},
		{"docker-archive:image.tar:a/b:c", "", "image.tar:a/b:c", "image+a+b+c.sqsh"},
		{"oci-archive:/data/image.tar", "", "/data/image.tar", "image.sqsh"},
		{"oci-archive:image.tar:localhost/a:v1", "", "image.tar:localhost/a:v1", "image+localhost+a+v1.sqsh"},
		{"oci:./layout:v1", "", "./layout:v1", "layout+v1.sqsh"},
	} {
		r, err := Parse(c.text)
		require.NoError(t, err, c.text)
		assert.Equal(t, c.user, r.User, c.text)
		assert.Equal(t, c.image, r.String(), c.text)
		file, err := FileName(c.text)
		require.NoError(t, err, c.text)
		assert.Equal(t, c.file, file, c.text)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"":                               "want [USER@]",
		"docker://":                      "want [USER@]",
		"docker://#ubuntu":               "want [USER@]",
		"docker://a.example#b.example/c": "names two registries",
		"docker://a/b#c":                 "no registry",
		"Ubuntu":                         "no image's name",
		"ubuntu:":                        "no image's name",
		"a b":                            "no image's name",
		"././":                           "no registry",
		"a.example/b//c":                 "no path of a registry's",
		"ubuntu@sha256:12":               "no image's name",
		"https://registry.example/a":     "want docker://IMAGE",
		"dockerd://ubuntu":               "docker save -o image.tar ubuntu",
		"podman://ubuntu":                "asks no daemon",
		"docker-archive:":                "want a path",
		"oci-archive::a":                 "want a path",
		"oci::tag":                       "want a path",
		"a\nb":                           "no line break",
	} {
		_, err := Parse(text)
		assert.ErrorContains(t, err, why, text)
	}
}

// TestText: what a named container keeps of its image is read again as the same image.
func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"ubuntu:24.04":               "docker://index.docker.io/library/ubuntu@" + sum,
		"docker://a@x.y@short#b/c:d": "docker://a@x.y@short#b/c@" + sum,
		"docker://a@x.y@r.z#b/c:d":   "docker://a@x.y@r.z/b/c@" + sum,
		"localhost:5000/a":           "docker://localhost:5000/a@" + sum,
		"registry.example/a.b/c:d":   "docker://registry.example/a.b/c@" + sum,
		"registry.example/a@" + sum:  "docker://registry.example/a@" + sum,
	} {
		r, err := Parse(text)
		require.NoError(t, err, text)
		at := r.At(sum)
		assert.Equal(t, want, at.Text(), text)
		assert.Equal(t, sum, at.Digest(), text)
		again, err := Parse(at.Text())
		require.NoError(t, err, at.Text())
		assert.Equal(t, at.User, again.User)
		assert.Equal(t, at.String(), again.String())
	}
}

// FuzzParse: a file's name is one name in the directory, and an image's whole name is one that go-containerregistry takes
// for the same image.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"ubuntu", "docker://u@r.example#a/b:c", "oci:..:x", "docker-archive:/:..", "oci-archive:a:b", "a@" + sum} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		file, err := FileName(text)
		require.NoError(t, err)
		require.False(t, strings.ContainsAny(file, "/\x00") || strings.HasPrefix(file, "."+"sqsh.") || file == ".." || file == ".", file)
		if r.Image != nil {
			if LooksLikeRegistry(r.Image.Registry) {
				known, err := name.ParseReference(r.Image.Name())
				require.NoError(t, err)
				require.Equal(t, r.Image.Name(), known.Name())
			}
			again, err := Parse(r.Text())
			require.NoError(t, err, r.Text())
			require.Equal(t, r.Image.Name(), again.Image.Name())
			require.Equal(t, r.User, again.User)
		}
	})
}
