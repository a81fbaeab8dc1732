package main

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// unfit is a cluster's configuration with one setting that fits no pod.
const unfit = "SLURM_VERSION = 26.05.5\nSelectType = select/linear\nSelectTypeParameters = CR_CORE_MEMORY\nTaskPlugin = task/cgroup\n" +
	"TmpFS = /tmp\nSlurmdSpoolDir = /var/spool/slurmd\nConstrainRAMSpace = yes\n"

// mismatches are those that the status tells, by their beginnings; and what went wrong instead.
func mismatches(fault string, want ...string) condition {
	return func(c *container) error {
		s, err := c.status()
		switch {
		case err != nil:
			return err
		case s.Node == nil || s.Node.Fit == nil:
			return fmt.Errorf("the cluster's configuration was not asked for")
		case !strings.Contains(s.Node.Fit.Error, fault) || len(s.Node.Fit.Mismatches) != len(want):
			return fmt.Errorf("want %q and %q, have %v", fault, want, s.Node.Fit)
		}
		for i, m := range s.Node.Fit.Mismatches {
			if !strings.HasPrefix(m.String(), want[i]) {
				return fmt.Errorf("want %q, have %s", want[i], m)
			}
		}
		return nil
	}
}

// TestFit: the cluster's configuration is compared once the node is Ready, and told once.
func TestFit(t *testing.T) {
	const mismatch = "SelectType=select/linear: want select/cons_tres (slurm.conf)"
	for _, story := range []struct {
		name   string
		files  map[string]string
		phases []phase
	}{{
		name:  "of a cluster that does not fit: it is told, once, and again looked at after a hand-over",
		files: map[string]string{"config": unfit},
		phases: []phase{
			{"it is Ready", nil, []condition{
				isReady, mismatches("", mismatch), inOrder(asked, "show config"), atMost("show config", 1),
				logged(entry{"level": "WARN", "source": "slurmlet", "msg": "does not fit this pod", "setting": "SelectType=select/linear"}),
			}},
			{"the cluster is repaired", []act{func(c *container) {
				c.put("config", strings.Replace(unfit, "select/linear", "select/cons_tres", 1))
			}, signal(unix.SIGHUP)}, []condition{isReady, wrote("show config", 2), mismatches("")}},
			{"and broken again", []act{func(c *container) { c.put("config", unfit) }, signal(unix.SIGHUP)}, []condition{
				isReady, wrote("show config", 3), mismatches("", mismatch), func(c *container) error {
					if n := strings.Count(c.log.String(), "does not fit this pod"); n != 1 {
						return fmt.Errorf("told %d times", n)
					}
					return nil
				},
			}},
		},
	}, {
		name: "that cannot be had: nothing happens",
		phases: []phase{
			{"it is Ready", nil, []condition{
				isReady, mismatches("Zero Bytes were transmitted"), notLogged(entry{"msg": "does not fit this pod"}), notLogged(entry{"msg": "Zero Bytes"}),
			}},
			{"and stays so", nil, []condition{is(supervisor.Ready, "", ""), probes(200, 200, 200), restarts(0)}},
		},
	}} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			play(t, given{role: "slurmd", env: []string{"SLURMLET_SPOOL_DIR=/var/spool/slurmd"}, files: story.files}, story.phases...)
		})
	}
}
