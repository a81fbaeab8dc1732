package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/kit/keyring"
)

// conf is a slurm.conf with a name in its first line, by which slurmctld tells what it reads.
func conf(name string, more ...string) string {
	return strings.Join(append([]string{"MailDomain=" + name, "ClusterName=c", "SlurmctldHost=ctl"}, more...), "\n") + "\n"
}

// edit writes a file of the sources in one go, as an editor does.
func edit(name, text string) act {
	return func(c *container) {
		c.put("new", text)
		if keyring.IsKeyFile(name) {
			require.NoError(c.t, os.Chmod(c.path("new"), 0o600))
		}
		require.NoError(c.t, os.Rename(c.path("new"), c.path("conf/"+name)))
	}
}

// swap does as the kubelet does with a ConfigMap, whatever the directory was before.
func swap(number int, files map[string]string) act {
	return func(c *container) {
		for name, text := range files {
			c.put(fmt.Sprintf("conf/..%d/%s", number, name), text)
		}
		require.NoError(c.t, os.Symlink(fmt.Sprintf("..%d", number), c.path("conf/..data_tmp")))
		require.NoError(c.t, os.Rename(c.path("conf/..data_tmp"), c.path("conf/..data")))
	}
}

// waitsIn: another job waits in a partition.
func waitsIn(job, partition string) act {
	return func(c *container) {
		c.put("jobs/"+job, fmt.Sprintf(`{"job_id":%s,"job_state":["PENDING"],"partition":%q}`, job, partition))
	}
}

func reads(name string) string { return "] reads MailDomain=" + name + "\n" }

// last: the last slurmctld that has started reads this cluster's configuration, and so does whoever asks.
func last(name string) condition {
	return func(c *container) error {
		journal := c.journal()
		at := strings.LastIndex(journal, " reads ")
		text, err := os.ReadFile(c.path("run/conf/slurm.conf"))
		if err != nil {
			return err
		}
		if !strings.HasPrefix(journal[max(0, at):], " reads MailDomain="+name+"\n") || !strings.HasPrefix(string(text), "MailDomain="+name+"\n") {
			return fmt.Errorf("want %s, slurmctld%.40s…, in place is %.40s", name, journal[max(0, at):], text)
		}
		return nil
	}
}

// kept is what the next container can fall back on.
func kept(name string) condition {
	return func(c *container) error {
		text, err := os.ReadFile(c.path("state/slurmlet/conf/slurm.conf"))
		if err == nil && !strings.HasPrefix(string(text), "MailDomain="+name+"\n") {
			err = fmt.Errorf("want %s kept, have %s", name, text)
		}
		return err
	}
}

// isRefused: the status and the log say why, and nothing more is going on.
func isRefused(why string) condition {
	return func(c *container) error {
		s, err := c.status()
		if err != nil {
			return err
		}
		why := strings.ReplaceAll(why, "$", c.path("conf"))
		if s.Conf.Refused == nil || s.Conf.Refused.Since.IsZero() || s.Conf.Doing != "" || !strings.Contains(strings.Join(s.Conf.Refused.Why, "\n"), why) {
			return fmt.Errorf("want a refusal with %q, have %+v", why, *s.Conf)
		}
		return logged(entry{"level": "ERROR", "msg": "the configuration is refused; the last good one stays", "error": strings.Split(why, "\n")[0]})(c)
	}
}

// does: this is going on.
func does(what string) condition {
	return func(c *container) error {
		s, err := c.status()
		if err == nil && s.Conf.Doing != what {
			err = fmt.Errorf("want %s, have %+v", what, *s.Conf)
		}
		return err
	}
}

func notRefused(c *container) error {
	s, err := c.status()
	if err == nil && (s.Conf.Refused != nil || s.Conf.Doing != "") {
		err = fmt.Errorf("want no refusal, have %+v", *s.Conf)
	}
	return err
}

// warns: the status has this warning and no other; empty for none.
func warns(warning string) condition {
	return func(c *container) error {
		s, err := c.status()
		if have := strings.Join(s.Conf.Warnings, "\n"); err == nil && have != strings.ReplaceAll(warning, "$", c.path("conf")) {
			err = fmt.Errorf("want the warning %q, have %q", warning, have)
		}
		return err
	}
}

// bothKeys are firstKey, which signs, and another one.
const bothKeys = `{"keys":[
	{"kid":"first","kty":"oct","alg":"HS256","k":"YSBrZXkgb2Ygc2l4dGVlbiBieXRlcywgYW5kIG1vcmU="},
	{"kid":"other","kty":"oct","alg":"HS256","k":"YW5vdGhlciBrZXkgb2Ygc2l4dGVlbiBieXRlcw=="}]}`

const reconfigured = "] reconfigure\n"

func TestReload(t *testing.T) {
	t.Parallel()
	for _, story := range []struct {
		name   string
		given  given
		phases []phase
	}{{
		name: "an edit is live, once, and kept",
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, last("first"), kept("first"), never(reconfigured), inOrder("hostnames", "start uid")}},
			{"an edit", []act{edit("slurm.conf", conf("second"))}, []condition{
				isReady, last("second"), kept("second"), notRefused, logged(entry{"msg": "the configuration is live"}),
				measures(`slurmlet_config_reloads_total{outcome="taken"} 1`, "slurmlet_config_refused 0"), notMeasured("slurmlet_config_refused_info"),
				inOrder("show hostnames a", reconfigured, "hands over", "reads MailDomain=second", "show nodes"),
			}},
			{"the same once more", []act{edit("slurm.conf", conf("second")), pass(400 * time.Millisecond)}, []condition{isReady, atMost(reconfigured, 1)}},
			{"what is no configuration", []act{edit(".slurm.conf.swp", "x"), pass(400 * time.Millisecond)}, []condition{isReady, atMost(reconfigured, 1)}},
			{"SIGTERM ends it", []act{signal(unix.SIGTERM)}, []condition{exits(0)}},
		},
	}, {
		name: "an edit waits for jobs that are being launched",
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"an edit", []act{choose("launching"), edit("slurm.conf", conf("second"))}, []condition{isReady, last("first"), never(reconfigured), does("waiting for slurmctld to launch the jobs that it has started")}},
			{"a second one", []act{edit("slurm.conf", conf("third"))}, []condition{isReady, last("first"), never(reconfigured)}},
			{"no more of them are started", nil, []condition{wrote("create reservation reservationname=slurmlet-reconfigure", 1), never(reconfigured)}},
			{"they are launched", []act{drop("launching")}, []condition{isReady, last("third"), kept("third"), atMost(reconfigured, 2), notRefused, wrote("delete reservationname=slurmlet-reconfigure", 1)}}, // it may not have heard of the third yet
			{"nobody can tell whether any are", []act{choose("mute"), edit("slurm.conf", conf("fourth"))}, []condition{
				isReady, last("fourth"), notRefused, logged(entry{"level": "WARN", "msg": "cannot ask whether jobs are being launched; the reconfigure does not wait for them"}),
			}},
		},
	}, {
		name: "a ConfigMap's volume is swapped",
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, last("first")}},
			{"a first swap", []act{swap(1, map[string]string{"slurm.conf": conf("second"), "slurm.key": firstKey})}, []condition{isReady, last("second"), kept("second")}},
			{"a second swap", []act{swap(2, map[string]string{"slurm.conf": conf("third"), "slurm.key": firstKey})}, []condition{isReady, last("third"), kept("third"), atMost(reconfigured, 2)}},
		},
	}, {
		name: "a key's change that the nodes would not understand is refused, and one that they do is live",
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"another key", []act{edit("slurm.key", "another key of sixteen bytes")}, []condition{
				isReady, isRefused("cannot take the keys in $: others still sign with the key of slurm.key"), never(reconfigured), never("another key"),
			}},
			{"the key as it was", []act{edit("slurm.key", firstKey)}, []condition{isReady, notRefused, never(reconfigured)}},
			{"both of them", []act{edit("slurm.jwks", bothKeys)}, []condition{isReady, notRefused, inOrder(reconfigured, "hands over"), never("another key")}},
			{"a key that all can read", []act{func(c *container) { require.NoError(c.t, os.Chmod(c.path("conf/slurm.jwks"), 0o644)) }, edit("slurm.key", firstKey)}, []condition{
				isReady, isRefused("cannot use the cluster's key: $/slurm.jwks has mode 0644"),
			}},
			{"no JSON", []act{edit("slurm.jwks", "{k")}, []condition{isReady, isRefused("cannot use slurm.jwks: want JSON")}},
		},
	}, {
		name: "ten edits at once: the last one, once",
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"ten edits", []act{halted(func(c *container) {
				for n := range 10 {
					edit("slurm.conf", conf(fmt.Sprintf("edit%d", n)))(c)
				}
			})}, []condition{isReady, last("edit9"), kept("edit9"), atMost(reconfigured, 1)}},
		},
	}, {
		name: "an edit during a reconfigure",
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"one that takes its time", []act{choose("hold"), edit("slurm.conf", conf("second"))}, []condition{wrote("hands over", 1)}},
			{"others meanwhile", []act{
				edit("slurm.conf", conf("third")), pass(300 * time.Millisecond), edit("slurm.conf", conf("fourth")), pass(300 * time.Millisecond), drop("hold"),
			}, []condition{isReady, last("fourth"), kept("fourth"), never(reads("third")), atMost(reconfigured, 2)}},
		},
	}, {
		name: "what slurmctld refuses is taken back, and reconfigured with",
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, last("first")}},
			{"no difference", []act{command(0, "", "diff")}, nil},
			{"a plugin that there is not", []act{edit("slurm.conf", conf("second", "JobSubmitPlugins=job_submit/nosuch"))}, []condition{
				isReady, last("first"), kept("first"), wrote(reconfigured, 2), isRefused("slurmctld: failed to initialize job_submit plugin\nchanged: slurm.conf: JobSubmitPlugins: not set → job_submit/nosuch (slurm.conf:4:18)\nchanged: slurm.conf: MailDomain: first → second (slurm.conf:1:12)"),
				inOrder("reads MailDomain=second", reconfigured, "reads MailDomain=first"), logged(entry{"level": "INFO", "msg": "the last good configuration is back"}),
				measures("slurmlet_config_refused 1", `slurmlet_config_reloads_total{outcome="rolled_back"} 1`), notMeasured("nosuch"), notMeasured("job_submit plugin"),
			}},
			{"what is not live is told", []act{
				command(1, "slurm.conf: JobSubmitPlugins: not set → job_submit/nosuch (slurm.conf:4:18)\nslurm.conf: MailDomain: first → second (slurm.conf:1:12)\nrefused: ", "diff"),
			}, nil},
			{"looked at again, it stays refused", []act{edit("slurm.conf", conf("second", "JobSubmitPlugins=job_submit/nosuch")), pass(400 * time.Millisecond)}, []condition{isReady, last("first"), atMost(reconfigured, 2)}},
			{"by hand, it is tried", []act{command(1, "slurmctld: failed to initialize job_submit plugin", "reload")}, []condition{isReady, last("first"), wrote(reconfigured, 4)}},
			{"it is mended", []act{edit("slurm.conf", conf("second"))}, []condition{isReady, last("second"), kept("second"), notRefused}},
			{"by hand, what is live is tried too", []act{command(0, "", "reload")}, []condition{isReady, last("second"), wrote(reconfigured, 6), notRefused}},
		},
	}, {
		name: "what the check refuses is never seen by slurmctld",
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"a key that nobody knows", []act{edit("slurm.conf", conf("second", "Foo=bar"))}, []condition{
				isRefused("$/slurm.conf:4: error: Foo is not a key of slurm.conf"),
				measures("slurmlet_config_refused 1", `slurmlet_config_refused_info{file="slurm.conf",line="4"} 1`, `slurmlet_config_reloads_total{outcome="refused"} 1`),
			}},
			{"what only Slurm's parser refuses", []act{edit("slurm.conf", conf("second", "MailProg=Foo=bar"))}, []condition{isRefused("Slurm's parser: _parse_next_key: Parsing error at unrecognized key: Foo")}},
			{"a line that is none", []act{edit("slurm.conf", conf("second", "", "Foo"))}, []condition{isRefused("$/slurm.conf:5:")}},
			{"a node that there is not", []act{edit("slurm.conf", conf("second", "PartitionName=x Nodes=a"))}, []condition{isRefused("$/slurm.conf:4:23: error: partition x has a, which is no node and no NodeSet")}},
			{"what needs a restart", []act{edit("slurm.conf", conf("second", "SlurmctldPort=7000"))}, []condition{isRefused("$/slurm.conf:4:15: error: SlurmctldPort was \"6817\" and is \"7000\", which needs a restart of everything: ")}},
			{"two files at once", []act{edit("cgroup.conf", "Foo=bar\n"), edit("slurm.conf", conf("second", "Foo=bar"))}, []condition{isRefused("$/cgroup.conf:1: error: Foo is not a key of cgroup.conf\n$/slurm.conf:4: error: Foo is not")}},
			{"the other as it was", []act{func(c *container) { require.NoError(c.t, os.Remove(c.path("conf/cgroup.conf"))) }}, nil},
			{"an empty file", []act{edit("slurm.conf", "")}, []condition{isRefused("$/slurm.conf: the file is empty")}},
			{"a binary", []act{edit("slurm.conf", "a\n\x00")}, []condition{isRefused("$/slurm.conf:2: want text")}},
			{"its place is told", nil, []condition{measures(`slurmlet_config_refused_info{file="slurm.conf",line="2"} 1`)}},
			{"no directory", []act{func(c *container) { require.NoError(c.t, os.Rename(c.path("conf"), c.path("away"))) }}, []condition{isRefused("no such file or directory"), notMeasured("slurmlet_config_refused_info")}},
			{"it is back", []act{func(c *container) {
				require.NoError(c.t, os.WriteFile(c.path("away/slurm.conf"), []byte(conf("third")), 0o644))
				require.NoError(c.t, os.Rename(c.path("away"), c.path("conf")))
			}}, []condition{isReady, last("third"), notRefused, never(reads("second")), atMost(reconfigured, 1)}},
			{"and back to the first", []act{edit("slurm.conf", conf("first"))}, []condition{isReady, last("first"), notRefused}},
		},
	}, {
		name: "a partition that has jobs is not taken away",
		given: given{files: map[string]string{
			"conf/slurm.conf": conf("first", "PartitionName=all Nodes=ALL", "PartitionName=gpu Nodes=ALL"),
			"jobs/5":          `{"job_id":5,"job_state":["RUNNING"],"partition":"gpu"}`, "jobs/6": `{"job_id":6,"job_state":["RUNNING"],"partition":"all"}`,
			"jobs/7": `{"job_id":7,"job_state":["COMPLETED"],"partition":"gpu"}`, "nodes.json": `{"nodes":[{"name":"n1","state":["DOWN","NOT_RESPONDING","DYNAMIC_NORM"]}]}`,
		}},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, last("first")}},
			{"it is taken away", []act{edit("slurm.conf", conf("second", "PartitionName=all Nodes=ALL"))}, []condition{
				isReady, isRefused("$/slurm.conf: error: PartitionName=gpu is not there any more, but job 5 is in it, and slurmctld would end it: want it back, with State=DRAIN, until its jobs are over"),
				last("first"), never(reconfigured), measures("slurmlet_config_refused 1", `slurmlet_config_reloads_total{outcome="refused"} 1`),
			}},
			{"two of them", []act{waitsIn("8", "gpu"), command(1, "PartitionName=gpu is not there any more, but 2 jobs are in it (5,8), and slurmctld would end them", "reload")}, nil},
			{"nobody can tell", []act{choose("down"), command(1, "PartitionName=gpu is not there any more, but slurmctld does not say whether there are jobs in it: squeue: ", "reload"), drop("down")}, nil},
			{"it is there again, and another setting", []act{edit("slurm.conf", conf("third", "PartitionName=all Nodes=ALL", "PartitionName=gpu Nodes=ALL State=DRAIN"))}, []condition{isReady, last("third"), kept("third"), notRefused}},
			{"they are over", []act{drop("jobs/5"), drop("jobs/8"), choose("launching"), edit("slurm.conf", conf("fourth", "PartitionName=all Nodes=ALL"))}, []condition{
				isReady, last("third"), does("waiting for slurmctld to launch the jobs that it has started"),
			}},
			{"one comes while launches are waited for", []act{waitsIn("9", "gpu"), drop("launching")}, []condition{isReady, last("third"), isRefused("job 9 is in it"), atMost(reconfigured, 1)}},
			{"it is over", []act{drop("jobs/9"), command(0, "", "reload")}, []condition{isReady, last("fourth"), kept("fourth"), notRefused}},
		},
	}, {
		name: "at the start, a partition that may have jobs: slurmctld comes up with the last good one, and is asked",
		given: given{good: conf("good", "PartitionName=all Nodes=ALL", "PartitionName=gpu Nodes=ALL"), files: map[string]string{
			"conf/slurm.conf": conf("first", "PartitionName=all Nodes=ALL"), "jobs/5": `{"job_id":5,"job_state":["PENDING"],"partition":"gpu"}`,
		}},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, last("good"), kept("good"), isRefused("PartitionName=gpu is not there any more, but job 5 is in it"), never(reads("first"))}},
			{"the job is over", []act{drop("jobs/5"), command(0, "", "reload")}, []condition{isReady, last("first"), kept("first"), notRefused}},
		},
	}, {
		name: "at the start, a partition without jobs: it is gone once slurmctld has said so",
		given: given{
			good:  conf("good", "PartitionName=all Nodes=ALL", "PartitionName=gpu Nodes=ALL"),
			files: map[string]string{"conf/slurm.conf": conf("first", "PartitionName=all Nodes=ALL")},
		},
		phases: []phase{{"it is Ready", nil, []condition{isReady, last("first"), kept("first"), notRefused, inOrder(reads("good"), "--format=%i %P", reconfigured, reads("first"))}}},
	}, {
		name: "at the start, a partition that may have jobs, and what only a start can change: it is taken",
		given: given{
			good:  conf("good", "PartitionName=all Nodes=ALL", "PartitionName=gpu Nodes=ALL"),
			files: map[string]string{"conf/slurm.conf": conf("first", "PartitionName=all Nodes=ALL", "SlurmctldPort=7000")},
		},
		phases: []phase{{"it is Ready", nil, []condition{isReady, last("first"), kept("first"), notRefused, never(reconfigured)}}},
	}, {
		name: "at the start, a partition that may have jobs, and slurmctld does not come up with the last good one: it is taken",
		given: given{
			good:  conf("good", "PartitionName=all Nodes=ALL", "PartitionName=gpu Nodes=ALL", "JobSubmitPlugins=job_submit/nosuch"),
			files: map[string]string{"conf/slurm.conf": conf("first", "PartitionName=all Nodes=ALL"), "slow": ""},
		},
		phases: []phase{
			{"slurmctld takes longer to end than the sources to be read once more", nil, []condition{wrote(reads("good"), 1)}},
			{"it is Ready", []act{pass(400 * time.Millisecond), drop("slow")}, []condition{isReady, last("first"), kept("first"), notRefused, inOrder(reads("good"), reads("first"))}},
		},
	}, {
		name: "what Slurm takes and nobody may have meant is live, and told",
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"keys twice", []act{edit("slurm.conf", conf("second", "MailDomain=third"))}, []condition{isReady, last("second"), notRefused, warns("$/slurm.conf:4: warning: MailDomain is set already, at slurm.conf:1; the last value counts: want it once")}},
			{"once", []act{edit("slurm.conf", conf("third"))}, []condition{isReady, last("third"), warns("")}},
		},
	}, {
		name:  "without a preflight, slurmctld has the first word",
		given: given{env: []string{"SLURMLET_PREFLIGHT=off"}},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"another port", []act{edit("slurm.conf", conf("second", "SlurmctldPort=7000"))}, []condition{isReady, last("second"), notRefused, never("hostnames")}},
			{"a node that there is not", []act{edit("slurm.conf", conf("third", "PartitionName=x Nodes=nosuch"))}, []condition{isReady, last("second"), isRefused("$/slurm.conf:4: slurmctld: Invalid node names in partition x")}},
		},
	}, {
		name:   "what needs a restart is taken by a slurmctld that starts",
		given:  given{good: conf("good"), files: map[string]string{"conf/slurm.conf": conf("first", "SlurmctldPort=7000")}},
		phases: []phase{{"it is Ready", nil, []condition{isReady, last("first"), kept("first"), notRefused}}},
	}, {
		name: "slurmctld reconfigures without an answer to scontrol",
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"an edit", []act{choose("silent"), edit("slurm.conf", conf("second"))}, []condition{isReady, last("second"), kept("second"), notRefused}},
		},
	}, {
		name: "the nodes that answer are counted",
		given: given{files: map[string]string{"nodes.json": `{"nodes":[
			{"name":"a","state":["IDLE"],"slurmd_start_time":{"set":true,"number":100}},
			{"name":"b","state":["IDLE"],"slurmd_start_time":{"set":true,"number":100}},
			{"name":"c","state":["DOWN"],"slurmd_start_time":{"set":true,"number":100}}]}`}},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady}},
			{"an edit", []act{edit("slurm.conf", conf("second"))}, []condition{last("second"), kept("first"), wrote("show nodes", 3)}},
			{"they take it", []act{func(c *container) {
				c.put("nodes.json", `{"nodes":[{"name":"a","state":["IDLE"],"slurmd_start_time":{"set":true,"number":101}},
					{"name":"b","state":["IDLE"],"slurmd_start_time":{"set":true,"number":101}},
					{"name":"c","state":["DOWN"],"slurmd_start_time":{"set":true,"number":100}}]}`)
			}}, []condition{isReady, kept("second"), logged(entry{"msg": "the configuration is live", "nodes": "2"})}},
		},
	}, {
		name:  "at the start, what cannot be used and nothing to fall back on: it says so and exits",
		given: given{files: map[string]string{"conf/slurm.conf": conf("first", "", "Foo")}},
		phases: []phase{{"it exits", nil, []condition{
			exits(78), never("start uid"), logged(entry{"level": "ERROR", "error": "conf/slurm.conf:5:"}),
			logged(entry{"state": "Exited", "reason": "cannot use the configuration, and there is no earlier one that was good: "}),
		}}},
	}, {
		name:  "at the start, what cannot be used: the last good one is live, and it says so",
		given: given{good: conf("good"), files: map[string]string{"conf/slurm.conf": conf("first", "", "Foo")}},
		phases: []phase{
			{"it is Ready", nil, []condition{isReady, last("good"), isRefused("$/slurm.conf:5:"), never(reads("first"))}},
			{"it is mended", []act{edit("slurm.conf", conf("second"))}, []condition{isReady, last("second"), kept("second"), notRefused}},
		},
	}, {
		name:  "at the start, what slurmctld ends over: the last good one is live",
		given: given{good: conf("good"), files: map[string]string{"conf/slurm.conf": conf("first", "JobSubmitPlugins=job_submit/nosuch")}},
		phases: []phase{{"it is Ready", nil, []condition{
			isReady, last("good"), kept("good"), isRefused("exit code 1: failed to initialize job_submit plugin"), inOrder("reads MailDomain=first", "reads MailDomain=good"),
		}}},
	}, {
		name:   "at the start, what was good before: no check",
		given:  given{good: firstConf},
		phases: []phase{{"it is Ready", nil, []condition{isReady, last("first"), never("hostnames"), notRefused}}},
	}} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			story.given.role = "slurmctld"
			play(t, story.given, story.phases...)
		})
	}
}

// TestRendered: what slurm.conf does not set stands at its end, and what it sets is left alone.
func TestRendered(t *testing.T) {
	t.Parallel()
	c := start(t, given{role: "slurmctld", files: map[string]string{"conf/slurm.conf": conf("c", "ReturnToService=1", "PartitionName=all Nodes=ALL")}})
	c.await(phase{name: "it is Ready", want: []condition{isReady, func(c *container) error {
		s, err := c.status()
		if err == nil && len(s.Conf.Costs) == 0 {
			err = fmt.Errorf("no costs")
		}
		return err
	}}})
	for _, name := range []string{"slurm.conf", "cgroup.conf"} {
		have, err := os.ReadFile(c.path("run/conf/" + name))
		require.NoError(t, err)
		want, err := os.ReadFile(filepath.Join("testdata", "rendered", name))
		require.NoError(t, err)
		require.Equal(t, string(want), strings.ReplaceAll(string(have), c.dir, "$DIR"))
	}
	s, err := c.status()
	require.NoError(t, err)
	require.Equal(t, []string{c.path("conf/slurm.conf") + ":4:17: ReturnToService=1: a node that was away stays DOWN until somebody resumes it"}, s.Conf.Costs)
	require.True(t, s.Conf.Uncontained)
	said := c.run(t, "status").stdout
	require.Contains(t, said, "ReturnToService=1: a node that was away")
	require.Contains(t, said, "there is no oci.conf: srun --container runs the job on the node's own root file system")
}
