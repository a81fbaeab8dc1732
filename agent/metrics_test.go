package agent

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/kit/releases"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/podnames"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/login"
	"github.com/slurmlet/slurmlet/internal/login/gateway"
	"github.com/slurmlet/slurmlet/internal/pod/authkeys"
	"github.com/slurmlet/slurmlet/internal/pod/mainprocess"
	"github.com/slurmlet/slurmlet/internal/pod/people"
	"github.com/slurmlet/slurmlet/internal/pod/sack"
	"github.com/slurmlet/slurmlet/internal/pod/services"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/gres"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurmctld"
	"github.com/slurmlet/slurmlet/internal/slurmctld/accounts"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic"
	"github.com/slurmlet/slurmlet/internal/slurmctld/gonepods"
	"github.com/slurmlet/slurmlet/internal/slurmctld/gonepods/kept"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/internal/slurmctld/savedstate"
	"github.com/slurmlet/slurmlet/internal/slurmd"
	"github.com/slurmlet/slurmlet/internal/slurmd/cgroups"
	"github.com/slurmlet/slurmlet/internal/slurmd/containers"
	"github.com/slurmlet/slurmlet/internal/slurmd/devices"
	"github.com/slurmlet/slurmlet/internal/slurmd/holds"
	"github.com/slurmlet/slurmlet/internal/slurmd/podsize"
	"github.com/slurmlet/slurmlet/internal/slurmd/userfiles"
)

var update = flag.Bool("update", false, "write the golden files")

// noon and later are times of the statuses below.
var (
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	later = noon.Add(90*time.Second + 250*time.Millisecond)
)

func reportOf(version string) *releases.Report {
	v, err := releases.Parse(version)
	if err != nil {
		panic(err)
	}
	r := releases.Judge(v, noon.AddDate(1, 0, 0))
	return &r
}

var statuses = map[string]Status{
	"slurmctld": {
		Role: Slurmctld, State: supervisor.Ready, Since: noon, Version: "v1", Began: noon, Started: true, Main: &MainStatus{PID: 7, Since: noon},
		Release: reportOf("24.11.5-4"),
		Keys:    &authkeys.KeysStatus{Signs: "2026", Since: noon, Accepts: []authkeys.KeyStatus{{Name: "2026"}, {Name: "slurm.key", Expires: &later}}},
		Conf: &reconfig.Status{
			Sources: []string{"/etc/slurm"}, Live: "5feceb66ffc8", Good: "5feceb66ffc8", Took: 3, Missed: []string{"node-7"},
			Reloads: reconfig.Reloads{Taken: 2, Refused: 1, Last: &reconfig.Reload{At: later, Seconds: 1.75}},
		},
	},
	"lost jobs": {
		Role: Slurmctld, State: supervisor.Ready, Since: noon, Version: "v1", LastEnd: &mainprocess.Words{At: noon, Text: "a secret"},
		Status: slurmctld.Status{
			Losses:   &slurmctld.LossStatus{Count: 2, Last: &slurmctld.Line{At: later, Text: "a secret"}},
			LostJobs: &savedstate.Status{Lost: []savedstate.Job{{ID: 7, User: "a secret", Script: "a secret"}, {ID: 9}}, Again: []savedstate.Job{{ID: 8, Nodes: "a secret"}}, AgainTotal: 3, Dir: "a secret", Fault: "a secret"},
		},
	},
	"peers": {
		Role: Login, State: supervisor.Ready, Since: noon, Version: "v1",
		Peers: &podnames.Status{
			ClientStatus: peers.ClientStatus{Connected: true, Updated: later, Peers: 12, Streams: 3, Fault: "a secret"}, Names: 11,
			Taken: []string{"a secret"}, HostsFault: "a secret", Machine: "a secret", Drain: "a secret",
		},
	},
	"records": {
		Role: Slurmctld, State: supervisor.Ready, Since: noon, Version: "v1",
		Status: slurmctld.Status{
			KeptRecords: &kept.Status{Count: 3, Names: map[string]string{"a secret": "a secret"}, Deleted: 6},
			Records:     &gonepods.Status{Looked: later, Idle: 3, Busy: 5, Absent: 2, Fault: "a secret", Waiting: 1, Kept: map[string]string{"a secret": "a secret"}, Deleted: 7, Lost: 4},
			Accounts:    &accounts.Status{Applied: noon, Changes: 8, Why: []string{"a secret"}, Reason: "confirmation"},
		},
	},
	"elastic": {
		Role: Slurmctld, State: supervisor.Ready, Since: noon, Version: "v1",
		Status: slurmctld.Status{Elastic: &elastic.Status{Revision: 9, Looked: later, Fault: "a secret", Sets: []elastic.SetStatus{
			{Name: "cpu", Records: 500, Wanted: 3, Up: 2, Starting: 1, Starts: startsOf(1500*time.Millisecond, 3*time.Second, 4*time.Second, 13*time.Second)},
			{Name: "gpu", Records: 4, Failed: 2, Foreign: "a secret", Failing: []elastic.Failure{{Nodes: "a secret", Reason: "a secret"}}},
		}}},
	},
	"slurmctld-refused": {
		Role: Slurmctld, State: supervisor.Reloading, Since: noon, Version: "v1", Started: true, Main: &MainStatus{PID: 9, Since: noon}, LastError: &mainprocess.Words{At: later, Text: "a secret"},
		Keys: &authkeys.KeysStatus{Signs: "slurm.key", Since: noon, Accepts: []authkeys.KeyStatus{{Name: "slurm.key"}}, Refused: "a secret"},
		Conf: &reconfig.Status{
			Sources: []string{"/etc/slurm", "/etc/slurm-more"}, Live: "5feceb66ffc8", Good: "5feceb66ffc8", Doing: conf.Restoring.String(), Reloads: reconfig.Reloads{Refused: 1, RolledBack: 2},
			Refused: &reconfig.Refusal{Since: later, Why: []string{"slurmctld: a secret", "/etc/slurm-more/parts/nodes.conf:4:12: error: a secret", "/etc/slurm/slurm.conf:9: error: a secret"}},
			Faults:  []string{"a secret", "another"},
		},
	},
	"slurmd": {
		Role: Slurmd, State: supervisor.Ready, Since: noon, Version: "v1", Started: true, Main: &MainStatus{PID: 7, Since: later}, Restarts: 3,
		Node: &slurmd.Status{
			Name: "node-0", Size: nodesize.Size{CPUs: 16, Reserved: cgroup.SetOf(0, 1, 2, 3), RealMemory: 3072, TmpDisk: 1024}, Fit: &slurmd.MismatchStatus{Mismatches: []slurm.Mismatch{{Setting: "TaskPlugin=task/affinity"}}},
			Gres:   podsize.Gres{Plan: devices.Plan{Gres: gres.List{{Name: "gpu", Type: "nvidia_h200", Count: 2}, {Name: "shard", Count: 8}}}},
			Cgroup: &cgroups.Delegation{Mode: cgroup.Prefer, Delegation: cgroup.Delegation{Steps: "system.slice/node-0_slurmstepd.scope", Missing: []cgroup.Missing{{Controller: "devices"}}}},
			Steps:  &cgroups.StepsStatus{Watching: true, OOMKills: 5, Dead: 1, Leftovers: 2},
			Files:  &userfiles.Status{At: later, DiskUsed: 900 << 20, DiskLimit: 1 << 30, DiskFull: "a secret", LeftMemory: 60 << 20, LeftDisk: 800 << 20, LeftBy: []string{"a secret"}},
			Strays: &cgroups.StraysStatus{Killed: 6, Last: "a secret", Fault: "a secret"},
			Containers: &containers.Status{
				SquashfsLacks: "a secret", Usage: &containers.Usage{Running: 3, Images: 7, ImageBytes: 60e9, Free: 400e9, Uncounted: true},
			},
			PodHolds: &holds.Status{Jobs: []holds.JobStatus{{Job: 7, Pods: []string{"a secret"}}, {Job: 8, Ended: true, Drained: true, Fault: "a secret"}}},
		},
	},
	"slurmd-stopping": {
		Role: Slurmd, State: supervisor.Stopping, Since: noon, Version: "v1", Started: true, ConfFault: "a secret",
		Node: &slurmd.Status{
			Name: "node-0", Size: nodesize.Size{CPUs: 1, RealMemory: 448}, Fit: &slurmd.MismatchStatus{Error: "no answer"}, Fault: "a secret", Refusal: "a secret",
			Cgroup: &cgroups.Delegation{Mode: cgroup.Prefer, Error: "a secret", Delegation: cgroup.Delegation{Steps: "x", Missing: []cgroup.Missing{{Controller: "memory"}}}},
			Steps:  &cgroups.StepsStatus{}, Containers: &containers.Status{Lacks: "a secret"},
		},
		Stopping: &StoppingStatus{Since: noon, JobsUntil: &later, Until: later.Add(time.Minute), Jobs: []JobStatus{{ID: "1", User: "a secret"}, {ID: "2"}}, Left: "a secret", Unanswered: true},
	},
	"login": {
		Role: Login, State: supervisor.Ready, Since: noon, Version: "v1", Started: true, Main: &MainStatus{PID: 7, Since: noon}, Release: reportOf("26.05.5-1"),
		Sessions: []login.SessionStatus{{User: "a secret", From: "a secret"}, {User: "bob"}}, Users: &login.UsersStatus{},
		Gateway: &gateway.Status{
			Users: []string{"a secret"}, Connected: true, Jobs: 5, Fault: "a secret", Silent: "a secret", Done: map[wire.OrderKind]int{wire.Submit: 3, wire.Look: 9},
			Refused: 1, Unknown: 2, LastRefused: "a secret",
		},
		Leavers:  &people.Status{Waiting: []people.Waiting{{Name: "a secret", Why: "a secret"}}, Ended: 3, Why: "a secret"},
		Sack:     &sack.Status{Connections: 66, Ended: 836, Crowding: []sack.Holder{{UID: 1000, Connections: 64, Ended: 836}}, Port: "a secret"},
		Services: []services.Status{{Name: "sssd", State: services.Running}, {Name: "sshd", State: services.Backoff, Reason: "a secret", Restarts: 4}},
	},
	"login-stopping": {
		Role: Login, State: supervisor.Stopping, Since: noon, Version: "v1", Started: true, Main: &MainStatus{PID: 7, Since: noon}, Users: &login.UsersStatus{Fault: "a secret"},
		Services: []services.Status{{Name: "sshd", State: services.Stopped}}, Stopping: &StoppingStatus{Since: noon, Until: later},
	},
	"starting": {Role: Slurmdbd, State: supervisor.Starting, Since: noon, Doing: supervisor.Reaching.String(), Reason: "a secret", Version: "v1"},
	"names": {
		Role: Slurmctld, State: supervisor.Exited, Since: noon, Version: "a \"quoted\"\nversion\\",
		Keys: &authkeys.KeysStatus{Signs: strings.Repeat("é", 200)},
		Conf: &reconfig.Status{Sources: []string{"/etc/slurm"}, Refused: &reconfig.Refusal{Why: []string{"/etc/slurm/a:1\xff.conf: the file is empty"}}},
	},
}

// startsOf counts starts of nodes.
func startsOf(took ...time.Duration) (t exposition.Durations) {
	for _, d := range took {
		t.Add(elastic.StartBounds, d, 1)
	}
	return t
}

func TestMetrics(t *testing.T) {
	for name, s := range statuses {
		t.Run(name, func(t *testing.T) {
			var have strings.Builder
			require.NoError(t, s.WriteMetrics(&have))
			golden := filepath.Join("testdata", "metrics", name+".prom")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(have.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), have.String())
			assert.NotContains(t, have.String(), "secret", "what people are told is not in it")

			problems, err := promlint.New(strings.NewReader(have.String())).Lint()
			require.NoError(t, err)
			assert.Empty(t, problems)
		})
	}
}

// TestMetricsLabels: names of any kind come out as they went in, but for what is no UTF-8 or too long.
func TestMetricsLabels(t *testing.T) {
	all := families(t, statuses["names"])
	label := func(family string, n int) string { return all[family].GetMetric()[0].GetLabel()[n].GetValue() }
	assert.Equal(t, "a \"quoted\"\nversion\\", label("slurmlet_build_info", 0))
	assert.Equal(t, "a:1�.conf", label("slurmlet_config_refused_info", 0))
	assert.Empty(t, label("slurmlet_config_refused_info", 1))
	assert.Equal(t, strings.Repeat("é", 127), label("slurmlet_keys_info", 0))
}

// FuzzMetrics: whatever people have named and daemons have said, Prometheus reads the metrics, and no name is long.
func FuzzMetrics(f *testing.F) {
	f.Add("/etc/slurm/slurm.conf:4:12: error: no", "2026", "v1")
	f.Add("/etc/slurm/\"\n}: \xff", "\\\"\n\xc3", "{a=\"b\"} 1 2")
	f.Fuzz(func(t *testing.T, why, key, version string) {
		all := families(t, Status{
			Role: Slurmctld, Version: version, Keys: &authkeys.KeysStatus{Signs: key},
			Conf: &reconfig.Status{Sources: []string{"/etc/slurm"}, Refused: &reconfig.Refusal{Why: []string{why}}},
		})
		for name, family := range all {
			for _, pair := range family.GetMetric()[0].GetLabel() {
				require.LessOrEqual(t, len(pair.GetValue()), exposition.MaxLabel, name)
			}
		}
		if info, found := all["slurmlet_config_refused_info"]; found {
			require.NotContains(t, info.GetMetric()[0].GetLabel()[0].GetValue(), ": ", "more than a place")
		}
	})
}

// families are what Prometheus' own parser reads.
func families(t *testing.T, s Status) map[string]*dto.MetricFamily {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, s.WriteMetrics(&text))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(&text)
	require.NoError(t, err)
	return all
}
