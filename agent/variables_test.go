package agent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// faulty is a value that each variable refuses. Those that take every text are refused later, or have no wrong value.
var faulty = map[string]string{
	"SLURMLET_SLURMCTLD":           "a,,b",
	"SLURMLET_NODE_NAME":           "n[1-4]",
	"SLURMLET_CPU_LIMIT":           "500m",
	"SLURMLET_MEMORY_LIMIT":        "1G",
	"SLURMLET_RESERVE_MEMORY":      "-1",
	"SLURMLET_SIZE":                "machine",
	"SLURMLET_OTHERS_CPU":          "two",
	"SLURMLET_OTHERS_MEMORY":       "-1",
	"SLURMLET_CGROUP":              "yes",
	"SLURMLET_STORAGE_LIMIT":       "lots",
	"SLURMLET_SPOOL_DIR":           "spool",
	"SLURMLET_TMP_DIR":             "tmp",
	"SLURMLET_OOM_GROUP":           "yes",
	"SLURMLET_OOM_HEADROOM":        "some",
	"SLURMLET_LEFTOVERS":           "burn",
	"SLURMLET_DEAD_STEPS":          "bury",
	"SLURMLET_JOB_METRICS":         "513",
	"SLURMLET_GRES":                "gpu:",
	"SLURMLET_JOB_CONTAINERS":      "slurmlet-container",
	"SLURMLET_GRACE_PERIOD":        "30",
	"SLURMLET_JOB_SIGNAL":          "USR3@60",
	"SLURMLET_LISTEN":              "8817",
	"SLURMLET_RUN_DIR":             "run",
	"SLURMLET_CONF_DIR":            "etc",
	"SLURMLET_CONF_SOURCES":        "/etc/slurm:etc",
	"SLURMLET_CONF_DEFAULTS":       "some",
	"SLURMLET_ELASTIC_SETS":        "sets",
	"SLURMLET_ACCOUNTS":            "accounts.yaml",
	"SLURMLET_PREFLIGHT":           "yes",
	"SLURMLET_STATE_DIR":           "state",
	"SLURMLET_UPGRADE":             "26.05",
	"SLURMLET_DUMP_DIR":            "dumps",
	"SLURMLET_CLUSTER_INTERVAL":    "10ms",
	"SLURMLET_METRICS_USERS":       "yes",
	"SLURMLET_WEB_SOCKET":          "web.sock",
	"SLURMLET_REPORT_INTERVAL":     "2h",
	"SLURMLET_GONE_PODS":           "yes",
	"SLURMLET_LEAVERS":             "yes",
	"SLURMLET_MERGE":               "yes",
	"SLURMLET_ELASTIC":             "on",
	"SLURMLET_SSH":                 "on",
	"SLURMLET_AGENT_PORT":          "http",
	"SLURMLET_PEERS":               "https://slurmlet",
	"SLURMLET_PEERS_DIR":           "peers",
	"SLURMLET_HOLDS":               "yes",
	"SLURMLET_GATEWAY_USERS":       "alice,root",
	"SLURMLET_GATEWAY_MIN_UID":     "0",
	"SLURMLET_MACHINE":             "Machine 1",
	"SLURMLET_PODINFO_DIR":         "podinfo",
	"SLURMLET_DAEMON":              "slurmd",
	"SLURMLET_DAEMON_ARGS":         anyText,
	"SLURMLET_USER_MEMORY":         "2GB",
	"SLURMLET_USER_PROCESSES":      "0",
	"SLURMLET_SSHD_CONFIG":         "sshd_config",
	"SLURMLET_SSH_HOST_KEYS":       "keys",
	"SLURMLET_SSH_AUTHORIZED_KEYS": "authorized_keys",
	"SLURMLET_SSSD_CONFIG":         "sssd.conf",
	"SLURMLET_REST_USER":           "root",
	"SLURMLET_REST_LISTEN":         "6820",
	"SLURMLET_REST_AUTH":           "rest_auth/jwt,",
	"SLURMLET_REST_OPENAPI":        "slurmctld slurmdbd",
	"SLURMLET_SLURM_USER":          anyText, // the container's users decide
	"SLURMLET_LOG_LEVEL":           "verbose",
}

const anyText = ""

// TestEveryVariableRefuses: a faulty value is refused by its variable's name, and one run tells all of a role's at once.
// A role does not mind the variables of others.
func TestEveryVariableRefuses(t *testing.T) {
	for _, role := range Roles() {
		var environ, want, others []string
		for _, v := range variables {
			value, has := faulty[v.name]
			require.True(t, has, "%s has no faulty value in this table", v.name)
			if value == anyText {
				continue
			}
			environ = append(environ, v.name+"="+value)
			if v.meant(role) {
				want = append(want, v.name)
			} else {
				others = append(others, v.name)
			}
		}
		_, err := FromEnv(role, environ)
		require.Error(t, err)
		told := strings.Split(err.Error(), "\n")
		for _, name := range want {
			assert.True(t, refused(told, name), "%s: %s is not refused by: %s", role, name, err)
		}
		for _, name := range others {
			assert.False(t, refused(told, name), "%s: %s is refused by: %s", role, name, err)
		}
	}
	require.Len(t, faulty, len(variables), "this table has no other variables")
}

func refused(told []string, name string) bool {
	for _, line := range told {
		if strings.HasPrefix(line, name+": cannot use "+`"`) {
			return true
		}
	}
	return false
}
