package fabric

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	want := Settings{Name: "a", Nodes: []string{"kube-1"}, Port: 4711}
	require.NoError(t, want.Write(dir))
	got, err := Read(dir)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestAddresses(t *testing.T) {
	seen := map[string]bool{Gateway: true}
	for i := range MaxNodes {
		require.NotNil(t, net.ParseIP(Address(i)))
		_, pods, err := net.ParseCIDR(Pods(i))
		require.NoError(t, err)
		for _, one := range []string{Address(i), pods.String()} {
			assert.False(t, seen[one], one)
			seen[one] = true
		}
	}
	_, services, err := net.ParseCIDR(Services)
	require.NoError(t, err)
	assert.True(t, services.Contains(net.ParseIP(Kubernetes)))
}

func TestUnknownNodes(t *testing.T) {
	all := newComputers(Settings{Nodes: []string{"kube-1", "kube-2"}}, "/d")
	n, err := all.named("kube-2")
	require.NoError(t, err)
	assert.Equal(t, "/d/nodes/kube-2", n.boot)
	_, err = all.named("kube-3")
	assert.EqualError(t, err, `no node "kube-3"; there are: kube-1 kube-2`)
	assert.EqualError(t, n.off(), "cannot switch node kube-2 off: it is")
}
