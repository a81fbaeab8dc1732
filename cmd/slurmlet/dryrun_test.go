package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tries is what slurmctld writes down in a dry run of a configuration.
func tries(name string) string { return "] tries MailDomain=" + name + " " }

// cleared: nothing of a dry run is left, no file and no process.
func cleared(c *container) error {
	if _, err := os.Stat(c.path("run/dryrun")); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the dry run's directory is still there: %v", err)
	}
	return processes(2)(c)
}

// TestDryRun: with SLURMLET_PREFLIGHT=full, a slurmctld that nobody sees has an edit before the one that everybody uses.
func TestDryRun(t *testing.T) {
	for _, story := range []struct {
		name   string
		given  given
		phases []phase
	}{{
		name:  "slurmctld comes up with an edit, and it is live",
		given: given{good: firstConf, env: []string{"SLURMLET_SLURM_USER=nobody"}, files: map[string]string{"run/dryrun/state/job_state": "of another life"}},
		phases: []phase{
			{"it is Ready, with what was good before", nil, []condition{isReady, last("first"), never("tries"), cleared}},
			{"an edit", []act{edit("slurm.conf", conf("second"))}, []condition{
				isReady, last("second"), kept("second"), notRefused, cleared,
				inOrder("show hostnames a", tries("second")+"uid=65534 -D -i", "connects to itself: dial tcp", "network is unreachable", reconfigured, reads("second")),
			}},
		},
	}, {
		name: "what slurmctld does not come up with is refused, and the living one never sees it",
		phases: []phase{
			{"it is Ready, and was tried", nil, []condition{isReady, inOrder(tries("first"), reads("first")), cleared}},
			{"a plugin that there is not", []act{remember, edit("slurm.conf", conf("second", "JobSubmitPlugins=job_submit/nosuch"))}, []condition{
				isReady, stays, last("first"), never(reconfigured), never(reads("second")), cleared,
				isRefused("$/slurm.conf:4: slurmctld (dry run): cannot find job_submit plugin for job_submit/nosuch; failed to initialize job_submit plugin"),
			}},
			{"by hand, it is tried again", []act{command(1, "slurmctld (dry run)", "reload")}, []condition{isReady, stays, wrote(tries("second"), 2), never(reconfigured), cleared}},
			{"it is mended", []act{edit("slurm.conf", conf("third"))}, []condition{isReady, last("third"), kept("third"), notRefused, cleared}},
		},
	}, {
		name: "what the check refuses is not tried",
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"a key that nobody knows", []act{edit("slurm.conf", conf("second", "Foo=bar"))}, []condition{isRefused("$/slurm.conf:4: error: Foo is not a key"), never(tries("second"))}},
			{"what Slurm's parser refuses", []act{edit("slurm.conf", conf("second", "MailProg=Foo=bar"))}, []condition{isRefused("Slurm's parser"), never(tries("second"))}},
		},
	}, {
		name: "a dry run that is impossible refuses nothing",
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"the dry run is killed", []act{choose("killed"), edit("slurm.conf", conf("second"))}, []condition{
				isReady, last("second"), notRefused, cleared,
				logged(entry{"level": "WARN", "msg": "the check goes on without a dry run", "error": "slurmctld was killed: the container may be short of memory"}),
			}},
			{"nobody knows the accounts", []act{edit("slurm.conf", conf("third", "AccountingStorageType=accounting_storage/slurmdbd"))}, []condition{
				isReady, last("third"), notRefused, never(tries("third")), cleared, logged(entry{"level": "WARN", "error": "slurmctld has not stored yet what slurmdbd knows"}),
			}},
		},
	}, {
		name:   "at the start, what slurmctld does not come up with: the last good one is live",
		given:  given{good: conf("good"), files: map[string]string{"conf/slurm.conf": conf("first", "JobSubmitPlugins=job_submit/nosuch")}},
		phases: []phase{{"it is Ready", nil, []condition{isReady, last("good"), isRefused("slurmctld (dry run)"), never(reads("first")), cleared}}},
	}} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			story.given.role = "slurmctld"
			story.given.env = append(story.given.env, "SLURMLET_PREFLIGHT=full")
			play(t, story.given, story.phases...)
		})
	}
}

// TestDryRunConf: the whole of what slurmctld is given in a dry run.
func TestDryRunConf(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join("testdata", "dryrun", "given.conf"))
	require.NoError(t, err)
	c := start(t, given{role: "slurmctld", env: []string{"SLURMLET_PREFLIGHT=full"}, files: map[string]string{
		"conf/slurm.conf": strings.ReplaceAll(string(text), "$HOST", host), "conf/nodes.conf": "NodeName=c[1-2]\n",
	}})
	c.await(phase{name: "it is Ready", want: []condition{isReady}})
	have, err := os.ReadFile(c.path("dryrun.conf"))
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join("testdata", "dryrun", "slurm.conf"))
	require.NoError(t, err)
	port := regexp.MustCompile(`(?m)^SlurmctldPort=\d+$`)
	require.Equal(t, string(want), strings.NewReplacer(c.dir, "$DIR", host, "$HOST").Replace(port.ReplaceAllString(string(have), "SlurmctldPort=PORT")))
}
