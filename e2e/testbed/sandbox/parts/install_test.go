package parts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPackagesFor(t *testing.T) {
	root, err := packagesFor([]string{"root"})
	require.NoError(t, err)
	assert.Equal(t, []string{"debian-archive-keyring", "mmdebstrap"}, root)

	all, err := packagesFor(nil)
	require.NoError(t, err)
	assert.Subset(t, all, append(root, "gcc", "runc"))
	assert.IsIncreasing(t, all, "sorted, each once")

	_, err = packagesFor([]string{"beer"})
	assert.ErrorContains(t, err, `cannot install for "beer": there are bench, emulation, hooks, images, kernel, native, release, root`)
}

func TestLackingPackages(t *testing.T) {
	const installed = "installed gcc\nconfig-files flex\ninstalled bison-doc\n"
	assert.Equal(t, []string{"bison", "flex"}, lacking([]string{"bison", "flex", "gcc"}, installed))
	assert.Empty(t, lacking([]string{"gcc"}, installed))
}
