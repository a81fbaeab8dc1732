package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

func (s *tableServer) reported(r wire.Report) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if r.Whole {
		s.told = map[string]wire.NodeReport{}
	}
	for _, n := range r.Nodes {
		s.told[n.Name] = n
	}
	s.reports++
}

// knows is what the controller has been told of the nodes: "n1=idle n2=busy(reason)".
func (s *tableServer) knows(want string) condition {
	return func(*container) error {
		s.lock.Lock()
		defer s.lock.Unlock()
		var all []string
		for _, name := range slices.Sorted(maps.Keys(s.told)) {
			text := name + "=" + string(s.told[name].State)
			if drain := s.told[name].Drain; drain != "" {
				text += "(" + drain + ")"
			}
			all = append(all, text)
		}
		if have := strings.Join(all, " "); have != want {
			return fmt.Errorf("want a report of %q, have %q", want, have)
		}
		return nil
	}
}

// pods are slurmd's.
func (s *tableServer) pods(names ...string) act {
	return func(c *container) {
		for i, name := range names {
			s.put(name, "slurmd", fmt.Sprintf("10.0.0.%d", i+1))(c)
		}
	}
}

func (s *tableServer) lost(name string) act {
	return func(*container) { s.tell(serverOrder{Delete: "uid-" + name, Lost: true}) }
}

// nodes are slurmctld's records.
func nodes(lines ...string) act {
	return func(c *container) {
		c.put("nodes.next", strings.Join(lines, "\n")+"\n")
		require.NoError(c.t, os.Rename(c.path("nodes.next"), c.path("nodes")))
	}
}

// nodesAre compares names, states and reasons.
func nodesAre(want ...string) condition {
	return func(c *container) error {
		text, err := os.ReadFile(c.path("nodes"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		var have []string
		for line := range strings.Lines(string(text)) {
			have = append(have, strings.TrimSpace(line))
		}
		if !slices.Equal(have, want) {
			return fmt.Errorf("want the records %q, have %q", want, have)
		}
		return nil
	}
}

// waiting are the pods that are gone whose records stay, and why.
func waiting(want map[string]string) condition {
	return func(c *container) error {
		s, err := c.status()
		if err == nil && (s.Records == nil || !maps.Equal(s.Records.Kept, want)) {
			err = fmt.Errorf("want %v, have %+v", want, s.Records)
		}
		return err
	}
}

const (
	showsNodes = "--oneliner show nodes"
	isLost     = "slurmlet: Kubernetes says that the machine is gone"
)

// TestNodeRecords: what slurmctld's agent tells the controller, and what becomes of records whose pods are gone.
func TestNodeRecords(t *testing.T) {
	t.Parallel()
	slurmctld := func(env ...string) given {
		return given{role: "slurmctld", env: append([]string{"SLURMLET_REPORT_INTERVAL=1s"}, env...), files: map[string]string{"nodes": "n1 IDLE+DYNAMIC_NORM\n"}}
	}
	for name, story := range map[string]func(*tableServer) (given, []phase){
		"the controller hears of all nodes, and then of changes": func(s *tableServer) (given, []phase) {
			return slurmctld(), []phase{
				{"all", []act{nodes("n1 IDLE+DYNAMIC_NORM", "n2 ALLOCATED+DYNAMIC_NORM", "n3 IDLE+DRAIN+DYNAMIC_NORM fan", "n4 DOWN+NOT_RESPONDING")}, []condition{
					s.knows("n1=idle n2=busy n3=idle(fan) n4=absent(drained)"), isReady,
				}},
				{"a job ends, and one is suspended", []act{nodes("n1 IDLE+DYNAMIC_NORM", "n2 IDLE+DYNAMIC_NORM"), func(c *container) { c.put("suspended", "n[1,7]") }}, []condition{
					s.knows("n1=busy n2=idle n3=absent n4=absent"),
				}},
				{"slurmctld does not answer: nothing is told", []act{choose("down"), nodes("n9 IDLE"), drop("suspended")}, []condition{
					logged(entry{"level": "WARN", "msg": "cannot ask slurmctld about the cluster"}), s.knows("n1=busy n2=idle n3=absent n4=absent"),
				}},
				{"it answers", []act{drop("down")}, []condition{s.knows("n1=absent n2=absent n3=absent n4=absent n9=idle")}},
				{"a new controller hears of all", []act{func(*container) {
					s.stop()
					s.lock.Lock()
					s.told = nil
					s.lock.Unlock()
					s.begin()
				}}, []condition{s.knows("n9=idle")}},
			}
		},
		"nobody asks slurmctld while no controller is connected": func(s *tableServer) (given, []phase) {
			count := 0
			return slurmctld(), []phase{
				{"it asks", nil, []condition{s.knows("n1=idle"), connected(true)}},
				{"the controller goes", []act{func(*container) { s.stop() }}, []condition{connected(false)}},
				{"it asks no more", []act{func(c *container) { count = strings.Count(c.journal(), showsNodes) }, signalMainAgain}, []condition{isReady, func(c *container) error {
					return atMost(showsNodes, count+1)(c) // one may have been under way
				}}},
			}
		},
		"records go with their pods": func(s *tableServer) (given, []phase) {
			return slurmctld(), []phase{
				{"pods", []act{nodes("n1 IDLE+DYNAMIC_NORM", "n2 DOWN+DYNAMIC_NORM+NOT_RESPONDING", "n3 IDLE", "n4 IDLE+DYNAMIC_NORM", "n5 IDLE+CLOUD+DYNAMIC_NORM", "n6 IDLE+DYNAMIC_NORM"), s.pods("n1", "n2", "n3", "n4", "n5", "n6")}, []condition{s.knows("n1=idle n2=absent(drained) n3=idle n4=idle n5=idle n6=idle")}},
				{"all but one are gone", []act{s.gone("n1"), s.gone("n2"), s.gone("n3"), s.gone("n4"), s.gone("n5")}, []condition{
					nodesAre("n3 IDLE", "n5 IDLE+CLOUD+DYNAMIC_NORM", "n6 IDLE+DYNAMIC_NORM"), waiting(nil),
					wrote("delete nodename=n", 1), logged(entry{"level": "INFO", "msg": "deleted the records of nodes whose pods are gone"}),
				}},
			}
		},
		"a record that jobs hold stays until they end": func(s *tableServer) (given, []phase) {
			return slurmctld(), []phase{
				{"pods", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM", "n2 IDLE+DYNAMIC_NORM"), func(c *container) { c.put("suspended", "n2") }, s.pods("n1", "n2")}, []condition{s.knows("n1=busy n2=busy")}},
				{"they are gone", []act{s.gone("n1"), s.gone("n2")}, []condition{
					waiting(map[string]string{"n1": "jobs hold the node", "n2": "jobs hold the node"}), never("delete"), never("update"),
				}},
				{"the jobs end", []act{nodes("n1 IDLE+DYNAMIC_NORM", "n2 IDLE+DYNAMIC_NORM"), drop("suspended")}, []condition{nodesAre(), waiting(nil)}},
			}
		},
		"a machine is gone": func(s *tableServer) (given, []phase) {
			g := slurmctld()
			maps.Copy(g.files, map[string]string{
				"jobs/5": `{"job_id":5,"user_name":"ann","job_state":["RUNNING"],"batch_flag":true,"requeue":true}`,
				"jobs/6": `{"job_id":6,"user_name":"bob","job_state":["RUNNING"],"batch_flag":true}`,
			})
			return g, []phase{
				{"pods", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM", "n2 MIXED", "n3 ALLOCATED+DRAIN+DYNAMIC_NORM fan"), s.pods("n1", "n2", "n3")}, []condition{s.knows("n1=busy n2=busy n3=busy(fan)")}},
				{"slurmctld misses them", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM+NOT_RESPONDING", "n2 MIXED+NOT_RESPONDING", "n3 ALLOCATED+DRAIN+DYNAMIC_NORM+NOT_RESPONDING fan")}, nil},
				{"their machine goes", []act{s.lost("n1"), s.lost("n2"), s.lost("n3")}, []condition{
					nodesAre("n2 DOWN+NOT_RESPONDING+DRAIN " + isLost), wrote("state=down reason="+isLost, 1), wrote("state=down reason=fan", 1), wrote("update jobid=6 admincomment=slurmlet: Kubernetes says", 1),
					never("update jobid=5"), logged(entry{"level": "ERROR", "user": "bob"}), logged(entry{"level": "WARN", "msg": "machines are gone"}), waiting(nil),
				}},
			}
		},
		"a job ends on another node when its machine is gone": func(s *tableServer) (given, []phase) {
			g := slurmctld()
			g.files["jobs/5"] = `{"job_id":5,"user_name":"ann","job_state":["RUNNING"],"batch_flag":true,"requeue":true}`
			g.files["spool/n2_5.0"] = ""
			return g, []phase{
				{"pods", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM"), s.pods("n1")}, []condition{s.knows("n1=busy")}},
				{"its machine goes", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM+NOT_RESPONDING"), s.lost("n1")}, []condition{
					wrote("state=down", 1), waiting(map[string]string{"n1": "jobs that ran there are ending on other nodes"}), never("delete"),
				}},
				{"the job has ended", []act{drop("spool/n2_5.0")}, []condition{nodesAre(), wrote("delete nodename=n1", 1), waiting(nil)}},
			}
		},
		"slurmctld does not say that it has set the node of a lost machine DOWN": func(s *tableServer) (given, []phase) {
			g := slurmctld()
			maps.Copy(g.files, map[string]string{
				"jobs/5": `{"job_id":5,"user_name":"ann","job_state":["RUNNING"],"batch_flag":true,"requeue":true}`, "spool/n2_5.0": "", "unsure": "",
			})
			return g, []phase{
				{"pods", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM"), s.pods("n1")}, []condition{s.knows("n1=busy")}},
				{"its machine goes", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM+NOT_RESPONDING"), s.lost("n1")}, []condition{
					waiting(map[string]string{"n1": "jobs that ran there are ending on other nodes"}), never("delete"),
				}},
				{"the job has ended", []act{drop("spool/n2_5.0")}, []condition{nodesAre(), waiting(nil)}},
			}
		},
		"slurmctld finds out that a node is gone, and a job ends on another one": func(s *tableServer) (given, []phase) {
			g := slurmctld()
			g.files["jobs/5"] = `{"job_id":5,"user_name":"ann","job_state":["RUNNING"],"batch_flag":true,"requeue":true}`
			g.files["spool/n2_5.0"] = ""
			return g, []phase{
				{"pods", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM"), s.pods("n1")}, []condition{s.knows("n1=busy")}},
				{"the pod is gone", []act{s.gone("n1")}, []condition{waiting(map[string]string{"n1": "jobs hold the node"}), never("update")}},
				{"slurmctld sets it DOWN", []act{func(c *container) {
					c.put("jobs/5", `{"job_id":5,"user_name":"ann","job_state":["NODE_FAIL","COMPLETING"],"batch_flag":true,"requeue":true}`)
				}, nodes("n1 DOWN+DYNAMIC_NORM+NOT_RESPONDING Not responding")}, []condition{
					waiting(map[string]string{"n1": "jobs that ran there are ending on other nodes"}), never("delete"),
				}},
				{"the job has ended", []act{drop("spool/n2_5.0")}, []condition{nodesAre(), waiting(nil)}},
			}
		},
		"slurmctld does not name the jobs of a lost machine": func(s *tableServer) (given, []phase) {
			g := slurmctld()
			g.files["nameless"] = ""
			return g, []phase{
				{"pods", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM"), s.pods("n1")}, []condition{s.knows("n1=busy")}},
				{"its machine goes", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM+NOT_RESPONDING"), s.lost("n1")}, []condition{
					wrote("state=down", 1), waiting(map[string]string{"n1": "slurmctld did not name the jobs that ran there: they may be ending on other nodes"}), never("delete"),
					logged(entry{"level": "WARN", "msg": "slurmctld does not name the jobs whose machines are gone"}),
				}},
			}
		},
		"a pod has moved": func(s *tableServer) (given, []phase) {
			move := func(lost bool) act {
				return func(*container) {
					s.tell(serverOrder{Delete: "uid-n1", Lost: lost})
					s.tell(serverOrder{Put: &wire.Peer{Name: "n1", UID: "uid-n1-new", Role: "slurmd"}})
				}
			}
			return slurmctld(), []phase{
				{"a pod", []act{s.pods("n1")}, []condition{s.knows("n1=idle")}},
				{"another one has its name", []act{move(false)}, []condition{waiting(nil), wrote(showsNodes, 3)}},
				{"and nothing has happened to the record", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM")}, []condition{s.knows("n1=busy"), never("delete"), never("update")}},
			}
		},
		"jobs of a lost machine do not wait for the new pod": func(s *tableServer) (given, []phase) {
			return slurmctld(), []phase{
				{"a pod", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM"), s.pods("n1")}, []condition{s.knows("n1=busy")}},
				{"slurmctld misses it", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM+NOT_RESPONDING")}, nil},
				{"its machine goes, and another pod waits for a machine", []act{func(*container) {
					s.tell(serverOrder{Delete: "uid-n1", Lost: true})
					s.tell(serverOrder{Put: &wire.Peer{Name: "n1", UID: "uid-n1-new", Role: "slurmd"}})
				}}, []condition{nodesAre("n1 DOWN+DYNAMIC_NORM+NOT_RESPONDING+DRAIN " + isLost), waiting(nil), never("delete")}},
			}
		},
		"a snapshot that lacks a pod is not its end": func(s *tableServer) (given, []phase) {
			return slurmctld(), []phase{
				{"pods", []act{nodes("n1 IDLE+DYNAMIC_NORM", "n2 DOWN+DYNAMIC_NORM"), s.pods("n1", "n2")}, []condition{s.knows("n1=idle n2=idle(drained)")}},
				{"a controller that knows none", []act{func(*container) { s.stop(); s.begin() }}, []condition{
					nodesAre("n1 IDLE+DYNAMIC_NORM"), waiting(map[string]string{"n1": "slurmctld has not found out yet that its slurmd does not answer"}), connected(true),
				}},
				{"slurmctld finds out", []act{nodes("n1 IDLE+DYNAMIC_NORM+NOT_RESPONDING")}, []condition{nodesAre()}},
			}
		},
		"records that an earlier agent has left": func(s *tableServer) (given, []phase) {
			g := slurmctld()
			g.files["config"] = "SLURM_VERSION = 26.05.5\nSlurmdTimeout = 2 sec\nMessageTimeout = 10 sec\n"
			g.files["nodes"] = "n1 DOWN+DYNAMIC_NORM+NOT_RESPONDING Not responding\nn2 DOWN+DYNAMIC_NORM+NOT_RESPONDING fan\nn3 IDLE+DYNAMIC_NORM\nn4 DOWN+NOT_RESPONDING Not responding\n"
			return g, []phase{
				{"one is nobody's any more", nil, []condition{
					nodesAre("n2 DOWN+DYNAMIC_NORM+NOT_RESPONDING fan", "n3 IDLE+DYNAMIC_NORM", "n4 DOWN+NOT_RESPONDING Not responding"), connected(true), isReady,
				}},
			}
		},
		"an administrator wants records to stay": func(s *tableServer) (given, []phase) {
			return slurmctld("SLURMLET_GONE_PODS=off"), []phase{
				{"a pod", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM", "n2 IDLE+DYNAMIC_NORM"), s.pods("n1", "n2")}, []condition{s.knows("n1=busy n2=idle")}},
				{"gone, and told", []act{s.lost("n1"), s.gone("n2"), nodes("n1 ALLOCATED+DYNAMIC_NORM", "n2 ALLOCATED+DYNAMIC_NORM")}, []condition{
					s.knows("n1=busy n2=busy"), never("delete"), never("update"), waiting(nil),
				}},
			}
		},
		"records go where nothing is reported": func(s *tableServer) (given, []phase) {
			return slurmctld("SLURMLET_REPORT_INTERVAL=0"), []phase{
				{"a pod", []act{s.pods("n1")}, []condition{connected(true), isReady}},
				{"gone", []act{s.gone("n1")}, []condition{nodesAre(), s.knows("")}},
			}
		},
		"slurmctld does not answer": func(s *tableServer) (given, []phase) {
			return slurmctld(), []phase{
				{"a pod", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM"), s.pods("n1")}, []condition{s.knows("n1=busy")}},
				{"its machine goes", []act{nodes("n1 ALLOCATED+DYNAMIC_NORM+NOT_RESPONDING"), choose("down"), s.lost("n1")}, []condition{logged(entry{"level": "WARN", "msg": "cannot ask slurmctld about the cluster"}), never("update")}},
				{"it answers", []act{drop("down")}, []condition{nodesAre(), wrote("state=down", 1)}},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTableServer(t, "slurmctld", "ctl")
			g, phases := story(s)
			play(t, s.given(g), phases...)
		})
	}
}

// signalMainAgain has the agent publish states.
func signalMainAgain(c *container) {
	for range 3 {
		for _, p := range handOvers(1) {
			for _, do := range p.do {
				do(c)
			}
			c.await(p)
		}
	}
	c.await(phase{want: []condition{isReady, is(supervisor.Ready, "", "")}})
}
