package importer

import (
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/imageref"
)

// TestNamed: the registries' client asks for the image that the user has named, also by plain HTTP, and where a
// registry's name has no dot, as a Service's has none.
func TestNamed(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	for _, text := range []string{"docker://registry#a/b:c", "registry.example:5000/a", "ubuntu", "short#a@" + digest, "registry.example/a.b/c:d"} {
		r, err := imageref.Parse(text)
		require.NoError(t, err, text)
		known, err := named(r.Image)
		require.NoError(t, err, text)
		assert.Equal(t, r.Image.Name(), known.Name(), text)
		plain, err := named(r.Image, name.Insecure)
		require.NoError(t, err, text)
		assert.Equal(t, r.Image.Name(), plain.Name(), text)
		assert.Equal(t, "http", plain.Context().Scheme(), text)
	}
}
