package parts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfigVerification(t *testing.T) {
	for name, tc := range map[string]struct{ fragment, config, want string }{
		"all there":               {"CONFIG_A=y\nCONFIG_N=8\n", "CONFIG_N=8\nCONFIG_A=y\n", ""},
		"comments do not count":   {"# CONFIG_A=y\n", "", ""},
		"refused":                 {"CONFIG_B=y\nCONFIG_A=y\nCONFIG_C=y\n", "CONFIG_C=y\n", "refuses CONFIG_A=y CONFIG_B=y"},
		"explicitly not set":      {"CONFIG_A=y\n", "# CONFIG_A is not set\n", "refuses CONFIG_A=y"},
		"another value":           {"CONFIG_N=8\n", "CONFIG_N=4\n", "refuses CONFIG_N=8"},
		"a longer name":           {"CONFIG_A=y\n", "CONFIG_AB=y\n", "refuses CONFIG_A=y"},
		"kept on though unneeded": {"CONFIG_A=n\n# CONFIG_B is not set\n", "CONFIG_A=y\nCONFIG_B=y\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkConfig(tc.fragment, tc.config)
			if tc.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.want)
			}
		})
	}
}

func TestTheFragmentAsksForWhatTheSandboxUses(t *testing.T) {
	fragment, patches, err := kernelInputs()
	require.NoError(t, err)
	assert.NotEmpty(t, patches)
	have := parseConfig(fragment)
	for _, name := range []string{
		"STATIC_LINK", "SMP", "HOSTFS", "UML_NET_VECTOR", "CPUSETS", "MEMCG", "CGROUP_PIDS", "CGROUP_BPF",
		"OVERLAY_FS", "EXT4_FS", "VETH", "BRIDGE", "NETFILTER", "NF_TABLES", "SECCOMP_FILTER",
		"FUSE_FS", "EROFS_FS", "NFS_FS", "NFSD", "SECURITY_APPARMOR",
	} {
		assert.Equal(t, "y", have["CONFIG_"+name], name)
	}
}
