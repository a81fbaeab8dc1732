//go:build e2e

package monitoring

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// trouble is something that goes wrong, and the alerts that tell of it.
type trouble struct {
	what   string
	cause  func(*cluster) error
	alerts []string
}

// row is what happens together.
type row struct {
	// long takes half a minute and more, and happens with SLURMLET_E2E_FULL=1.
	long     bool
	troubles []trouble
}

// rows happen one after the other, and their troubles stay. The alerts of one fire before the next begins.
var rows = []row{
	{false, []trouble{
		{"slurmd dies again and again", (*cluster).killSlurmd, []string{"SlurmDaemonRestarting"}},
		{"a label that no node can have", (*cluster).mislabel, []string{"SlurmNodeChangeNotFollowed"}},
		{
			"a node has a key of its own, which expires, and no program for jobs' containers", (*cluster).startOddNode,
			[]string{"SlurmKeyExpires", "SlurmKeysDiffer", "SlurmContainersUnavailable"},
		},
		{"a disk shrinks", (*cluster).shrinkDisk, []string{"SlurmRegistrationRefused"}},
		{"sshd of a login pod has an address that is not the pod's", (*cluster).startDeafLogin, []string{"SlurmServiceDown", "SlurmPodsNotReady"}},
		{"the volume of the last good configuration is read-only", (*cluster).writeProtect, []string{"SlurmConfigNotRestored"}},
	}},
	{true, []trouble{{"slurmd hangs, and hundreds of jobs begin there", (*cluster).crowd, []string{"SlurmctldBusy"}}}},
	{true, []trouble{{"a node does not answer as an edit goes round", (*cluster).editPastOne, []string{"SlurmConfigMissed"}}}},
	{true, []trouble{{"the machine with hundreds of jobs loses its power", (*cluster).loseCrowd, []string{"SlurmJobsRequeued"}}}},
	{false, []trouble{
		{"the Secret of a node gets another key", (*cluster).replaceKey, []string{"SlurmKeysRefused"}},
		{"a zone loses its power", (*cluster).loseZone, []string{"SlurmPodsNotScraped", "SlurmManyNodesDown", "SlurmJobsLost"}},
	}},
	{true, []trouble{{"slurmctld hangs, and a pod is deleted", (*cluster).hang, []string{"SlurmViewOld", "SlurmStopIncomplete"}}}},
	{true, []trouble{{"slurmctld's container is killed three times", (*cluster).killSlurmctld, []string{"SlurmctldRestarting"}}}},
	{false, []trouble{{"slurmctld's machine loses its power", (*cluster).loseSlurmctld, []string{"SlurmctldUnreachable"}}}},
}

// byPromtool are the alerts whose causes do not happen here, and why. cases_test.go has them fire all the same.
var byPromtool = map[string]string{
	"SlurmStopStuck":              "an agent that works exits by its deadline, and its series go with it",
	"SlurmStepsLost":              "slurmstepd is missed by its cgroup, and a node has none here: make limits kills one, and promtool takes what the agent counts",
	"SlurmCredentialsCrowded":     "it takes 100 connections of a user for minutes: make native has 900 (TestHang), and promtool takes what the agent tells",
	"SlurmLeaversWait":            "the pods here have no users: make native has them leave (TestAccounting), and promtool takes what the agent tells",
	"SlurmJobsForgotten":          "no job begins between two saves here: make native has slurmctld crash under submissions (TestCrash), and promtool takes what the agent tells",
	"SlurmAccountsNotApplied":     "this cluster has no slurmdbd: make native has a file refused (TestAccounting), and promtool takes what the agent tells",
	"SlurmNodeDiskFull":           "all nodes share a disk here: make native has a job fill that of a pod (TestSlurm), and promtool takes what the agent tells",
	"SlurmVersionVulnerable":      "make native runs a Slurm without known faults here, make test-full also 24.11, which has some; promtool takes what the agent tells",
	"SlurmVersionUnsupported":     "the clusters here run a Slurm that is mended: the agent's tests have one that is not, and promtool takes what the agent tells",
	"SlurmLoginLimitsNotEnforced": "no login pod here has a cgroup: make limits has one (TestLimits), and promtool takes what the agent tells",
	"SlurmOOMKills":               "the kernel counts them by cgroup, and a node has none here: 200 rounds of make test-full have jobs killed, and promtool takes what the agent counts",
}

// TestEachAlertHasACause: it fires here by something that happens, or it is said why it does not.
func TestEachAlertHasACause(t *testing.T) {
	have := slices.Concat(caused, []string{"SlurmMetricsMissing"}, slices.Collect(maps.Keys(byPromtool)))
	for _, row := range slices.Concat(rows, []row{{troubles: slowTroubles}}) {
		for _, one := range row.troubles {
			have = append(have, one.alerts...)
		}
	}
	var want []string
	for _, r := range alerts(t) {
		want = append(want, r.Alert)
	}
	assert.ElementsMatch(t, want, have)
}

// fireAll has the troubles happen, and Prometheus fire for each.
func (p *server) fireAll() error {
	p.cluster.Nodes[login].Role = "login"
	if err := p.discover(p.cluster.Nodes...); err != nil {
		return err
	}
	for _, row := range rows {
		if row.long && !p.Full {
			continue
		}
		if err := p.fire(40*time.Second, row.troubles); err != nil {
			return err
		}
	}
	return nil
}

// fire waits until Prometheus fires what the troubles cause.
func (p *server) fire(limit time.Duration, troubles []trouble) error {
	began, missing := time.Now(), map[string]string{}
	for _, t := range troubles {
		if err := t.cause(p.cluster); err != nil {
			return fmt.Errorf("%s: %w", t.what, err)
		}
		for _, alert := range t.alerts {
			missing[alert] = t.what
		}
	}
	err := native.Within(limit, "some alerts do not fire", func() bool {
		fired, err := p.firedSince(began)
		for _, alert := range fired {
			if what, is := missing[alert]; is {
				fmt.Printf("Slurm %s: %s fires after %v: %s\n", p.Version, alert, time.Since(began).Round(100*time.Millisecond), what)
			}
			delete(missing, alert)
		}
		return err == nil && len(missing) == 0
	})
	if err != nil {
		return fmt.Errorf("%w: %v", err, missing)
	}
	return nil
}

// firedSince are the alerts that have fired since then.
func (p *server) firedSince(began time.Time) (all []string, err error) {
	var fired struct {
		Result []struct{ Metric map[string]string }
	}
	err = p.Ask("query", url.Values{"query": {fmt.Sprintf(`count by (alertname) (count_over_time(ALERTS{alertstate="firing",slurmlet_dev_cluster=~"%s|"}[%dms]))`, real, time.Since(began).Milliseconds())}}, &fired)
	for _, r := range fired.Result {
		all = append(all, r.Metric["alertname"])
	}
	return all, err
}
