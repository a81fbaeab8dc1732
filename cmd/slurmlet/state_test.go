package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStateOfSlurmUser: slurmctld's volume is SlurmUser's, who may put anything in it. Root follows no link out of it.
func TestStateOfSlurmUser(t *testing.T) {
	link := func(c *container, target, name string) {
		require.NoError(c.t, os.MkdirAll(filepath.Dir(c.path(name)), 0o755))
		require.NoError(c.t, os.RemoveAll(c.path(name)))
		require.NoError(c.t, os.Symlink(c.path(target), c.path(name)))
	}
	t.Run("the last good set is not written through it", func(t *testing.T) {
		t.Parallel()
		play(t, given{role: "slurmctld", files: map[string]string{"victim/keep": "", "state/empty": ""}},
			phase{"it is Ready", nil, []condition{isReady, kept("first")}},
			phase{"SlurmUser puts a link in its place, and the configuration is edited", []act{
				func(c *container) { link(c, "victim", "state/slurmlet") },
				func(c *container) {
					c.put("conf/slurm.conf", "MailDomain=second\n"+firstConf[len("MailDomain=first\n"):])
				},
			}, []condition{isReady, logged(entry{"level": "WARN", "msg": "cannot keep the last good configuration"}), untouched}},
		)
	})
	t.Run("the last good set is not read through it", func(t *testing.T) {
		t.Parallel()
		stage := map[string]string{"victim/keep": "", "victim/slurm.conf": "MailDomain=victim\n" + firstConf, "conf/slurm.conf": "", "state/empty": ""}
		g := given{role: "slurmctld", files: stage, links: map[string]string{"state/slurmlet/conf": "victim"}}
		play(t, g, phase{"it exits, as where there is none", nil, []condition{
			exits(78), never("start uid"), logged(entry{"level": "WARN", "msg": "there is no good configuration to fall back on"}),
		}})
	})
}

// untouched: nothing was written where the link leads.
func untouched(c *container) error {
	entries, err := os.ReadDir(c.path("victim"))
	if err == nil && len(entries) != 1 {
		require.Fail(c.t, "it was written through a link", "%v", entries)
	}
	return err
}
