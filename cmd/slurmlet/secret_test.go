package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoSecretIsTold: passwords of slurm.conf are in no log, status, difference or metric, on the socket and the port
// alike, whether they are taken, refused or mistaken.
func TestNoSecretIsTold(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	c := start(t, given{
		role: "slurmctld", env: []string{"SLURMLET_LISTEN=" + port},
		files: map[string]string{"conf/slurm.conf": conf("first", "JobCompPass=hunter2", "AccountingStoragePass=hunter2")},
	})
	told := func(c *container) error {
		all := c.log.String() + c.run(t, "status").stdout + c.run(t, "status", "-o", "json").stdout + c.run(t, "diff").stdout
		for _, path := range []string{"/status", "/metrics", "/diff", "/readyz"} {
			body, _, err := c.get(path)
			if err != nil {
				return err
			}
			all += string(body)
		}
		if at := strings.Index(all, "hunter"); at >= 0 {
			return fmt.Errorf("a secret is told: …%s…", all[max(0, at-200):min(len(all), at+50)])
		}
		return nil
	}
	c.await(phase{name: "it is Ready", want: []condition{isReady, last("first"), told}})
	for name, lines := range map[string][]string{
		"second": {"JobCompPass=hunter3", "AccountingStoragePass=hunter4", "SchedulerType=sched/nosuch"},
		"third":  {"JobCompPass hunter5"},
		"fourth": {"JobCompPass=hunter6 hunter6", "JobCompPas=hunter7"},
	} {
		edit("slurm.conf", conf(name, lines...))(c)
		c.await(phase{name: name + " is refused", want: []condition{isRefused(""), told, func(c *container) error {
			s, err := c.status()
			if err == nil && (s.Conf.Refused == nil || s.Conf.Refused.Hash == "") {
				err = fmt.Errorf("no set was refused")
			}
			return err
		}}})
	}
	edit("slurm.conf", conf("fifth", "JobCompPass=hunter8"))(c)
	c.await(phase{name: "another password is live", want: []condition{last("fifth"), notRefused, told}})
	require.NoError(t, told(c))
}

// TestStrangersAreToldLittle: the port has the state, Ready, the version and hashes, and no more.
func TestStrangersAreToldLittle(t *testing.T) {
	t.Parallel()
	for role, want := range map[string][]string{
		"slurmctld": {"role", "state", "since", "ready", "started", "version", "conf"},
		"slurmd":    {"role", "state", "since", "ready", "started", "version"},
	} {
		port := freePort(t)
		c := start(t, given{role: role, env: []string{"SLURMLET_LISTEN=" + port}})
		c.await(phase{name: "it is Ready", want: []condition{isReady}})
		var told map[string]any
		require.NoError(t, json.Unmarshal([]byte(fetch(t, port, "/status")), &told))
		var keys []string
		for key := range told {
			keys = append(keys, key)
		}
		require.ElementsMatch(t, want, keys, role)
		require.Equal(t, true, told["ready"])
		for _, path := range []string{"/livez", "/readyz", "/startupz"} {
			require.Equal(t, "Ready\n", fetch(t, port, path), path)
		}
		if conf, _ := told["conf"].(map[string]any); role == "slurmctld" {
			require.Len(t, conf, 2, "%v", conf)
			require.Equal(t, conf["live"], conf["good"])
		}
	}
}
