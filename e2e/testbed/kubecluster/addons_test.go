package kubecluster

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestAddons(t *testing.T) {
	text, err := manifests([]string{"kube-1", "kube-2"})
	require.NoError(t, err)
	kinds, names := map[string]int{}, map[string]bool{}
	for all := yaml.NewDecoder(strings.NewReader(text)); ; {
		var one struct {
			Kind     string
			Metadata struct{ Name string }
		}
		err := all.Decode(&one)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		name := one.Kind + "/" + one.Metadata.Name
		assert.False(t, names[name], name)
		kinds[one.Kind]++
		names[name] = true
	}
	assert.Equal(t, map[string]int{"RuntimeClass": 1, "StorageClass": 2, "PersistentVolume": 16, "ClusterRoleBinding": 1}, kinds)
	assert.True(t, names["PersistentVolume/kube-2-volume-7"])
}
