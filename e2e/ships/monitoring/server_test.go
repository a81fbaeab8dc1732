//go:build e2e

package monitoring

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/e2e/testbed/prometheus"
)

// server is a Prometheus that scrapes a cluster each second.
type server struct {
	settings
	prometheus.Server
	cluster *cluster
	dir     string
	began   time.Time
}

const (
	// recordedAt serves the expositions that are recorded, as a cluster of its own.
	recordedAt = "127.0.0.1:9099"
	real       = "slurm"
	recorded   = "recorded"
)

func startPrometheus(s settings, c *cluster, nodes ...*native.Node) (*server, error) {
	dir := filepath.Join(native.Scratch, "prometheus")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	p := &server{settings: s, cluster: c, dir: dir, began: time.Now()}
	if err := p.discover(nodes...); err != nil {
		return nil, err
	}
	found := []any{map[string]any{"files": []string{p.targets()}}}
	jobs := []any{
		map[string]any{"job_name": "agents", "file_sd_configs": found},
		map[string]any{"job_name": "slurm-exporter", "metrics_path": "/metrics/slurm-exporter", "file_sd_configs": found, "relabel_configs": []any{
			map[string]any{"source_labels": []string{"slurmlet_dev_role"}, "regex": "slurmctld", "action": "keep"},
			map[string]any{"regex": "slurmlet_dev_cluster", "action": "labeldrop"},
		}},
	}
	for i, path := range s.Recorded {
		name := strings.TrimSuffix(filepath.Base(path), ".prom")
		if name == "usage" { // what the node's jobs use is a part of what its agent tells
			name = "slurmd"
		}
		role, _, _ := strings.Cut(name, "-")
		one := target(recorded, name, role, "gpu", "127.0.0.1")
		one["targets"] = []string{recordedAt}
		jobs = append(jobs, map[string]any{"job_name": fmt.Sprintf("recorded-%d", i), "metrics_path": fmt.Sprintf("/%d", i), "static_configs": []any{one}})
	}
	rules := filepath.Join(dir, "rules.yaml")
	text, err := yaml.Marshal(s.Rules.soon().written())
	if err := errors.Join(err, os.WriteFile(rules, text, 0o600)); err != nil {
		return nil, err
	}
	// It ends with the namespace.
	c.seen = p.sees
	p.Server, _, err = prometheus.Start(context.Background(), s.Prometheus, dir, map[string]any{
		"global":         map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files":     []string{rules},
		"scrape_configs": jobs,
	})
	return p, err
}

func (p *server) targets() string { return filepath.Join(p.dir, "targets.json") }

// discover tells Prometheus of slurmctld's pod and of others.
func (p *server) discover(nodes ...*native.Node) error {
	all := []any{target(real, "slurm-slurmctld-0", "slurmctld", "", native.Address)}
	for _, n := range nodes {
		set := "cpu"
		if n.Role != "" {
			set = ""
		}
		all = append(all, target(real, n.Name, cmp.Or(n.Role, "slurmd"), set, n.IP.String()))
	}
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("cannot tell Prometheus of the pods: %w", err)
	}
	next := filepath.Join(p.dir, "next.json")
	return errors.Join(os.WriteFile(next, text, 0o600), os.Rename(next, p.targets()))
}

// soon are the alerts as they are, but that each fires a second after its condition holds. promtool waits
// for as long as alerts.yaml says (cases_test.go).
func (f ruleFile) soon() (soon ruleFile) {
	for _, group := range f.Groups {
		group.Rules = slices.Clone(group.Rules)
		for i := range group.Rules {
			if group.Rules[i].For != "" {
				group.Rules[i].For = "1s"
			}
		}
		soon.Groups = append(soon.Groups, group)
	}
	return soon
}

// target is an agent with the labels that the PodMonitor gives to its series.
func target(cluster, pod, role, set, address string) map[string]any {
	labels := map[string]string{"namespace": "hpc", "pod": pod, "slurmlet_dev_cluster": cluster, "slurmlet_dev_role": role}
	if set != "" {
		labels["slurmlet_dev_node_set"] = set
	}
	return map[string]any{"targets": []string{net.JoinHostPort(address, "8817")}, "labels": labels}
}

func (p *server) serveRecorded() error {
	mux := http.NewServeMux()
	for i, path := range p.Recorded {
		mux.HandleFunc(fmt.Sprintf("/%d", i), func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) })
	}
	l, err := net.Listen("tcp", recordedAt)
	if err != nil {
		return fmt.Errorf("cannot serve what is recorded: %w", err)
	}
	go func() { _ = (&http.Server{Handler: mux}).Serve(l) }() // until the namespace ends
	return nil
}

// missesAll: there is no agent yet, so one alert fires, and no other.
func (p *server) missesAll() error {
	return native.Within(native.Limit, "SlurmMetricsMissing does not fire", func() bool {
		fired, err := p.firedSince(p.began)
		return err == nil && slices.Equal(fired, []string{"SlurmMetricsMissing"})
	})
}

// sees waits for the series of a slurmctld's agent that began after some time.
func (p *server) sees(at time.Time) error {
	return native.Within(native.Limit, "Prometheus does not see slurmctld's agent", func() bool {
		ok, err := p.hasData(fmt.Sprintf(`slurmlet_agent_start_time_seconds{slurmlet_dev_role="slurmctld",slurmlet_dev_cluster=%q} > %f`, real, float64(at.UnixMilli())/1000))
		return err == nil && ok
	})
}

// hasData: the query returns something.
func (p *server) hasData(expr string) (bool, error) {
	var data struct{ Result []any }
	err := p.Ask("query", url.Values{"query": {expr}}, &data)
	return len(data.Result) > 0, err
}

// Each variable is one of Grafana's, or one of the dashboard's.
var labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

// choose gives each variable of a dashboard a value, as Grafana does: from the first to the last,
// because one's query may have the value of another.
func (p *server) choose(d dashboardFile, cluster string) (*strings.Replacer, error) {
	chosen := []string{"$__rate_interval", "10s", "$__range", "1m", "$__interval", "5s"}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		value := cluster
		if v.Name != "cluster" {
			part := labelValues.FindStringSubmatch(v.Definition)
			if part == nil {
				return nil, fmt.Errorf("$%s is asked for in other words: %s", v.Name, v.Definition)
			}
			var values []string
			if err := p.Ask("label/"+part[2]+"/values", url.Values{"match[]": {strings.NewReplacer(chosen...).Replace(part[1])}}, &values); err != nil {
				return nil, err
			}
			if len(values) == 0 {
				return nil, fmt.Errorf("$%s has no value: %s", v.Name, v.Definition)
			}
			value = values[0]
			if v.IncludeAll {
				value = "(" + strings.Join(values, "|") + ")"
			}
		}
		chosen = append(chosen, "$"+v.Name, value)
	}
	return strings.NewReplacer(chosen...), nil
}

// unseen are metrics that no cluster has in which nodes have no cgroup, no GPU and no limit of disk, nobody logs in, no
// node set is elastic, there is no slurmdbd, Slurm has no known faults, and nobody asks for jobs' containers: the agents'
// recorded expositions have them.
var unseen = regexp.MustCompile(`slurmlet_(node_gres|service_|sessions|users_limited|keys_first_expiry|config_refused_timestamp|node_(jobs|daemons|container|gpu)|job_|cgroup|steps|strays|disk_|left_files|cluster_share_|elastic_|slurm_advisories|accounts_refused|containers_)`)

// answersAll waits until each query has returned data, from the real cluster, or for what it cannot
// have from what is recorded.
func (p *server) answersAll() error {
	var left []query
	total, fromRecord := 0, 0
	err := native.Within(40*time.Second, "Prometheus has no data for some queries", func() bool {
		var err error
		left, total, fromRecord, err = p.unanswered()
		if err != nil {
			left = []query{{"an error", err.Error()}}
		}
		return len(left) == 0
	})
	for _, q := range left {
		fmt.Printf("no data: %s: %s\n", q.Where, q.Expr)
	}
	if err == nil {
		fmt.Printf("Slurm %s: %d queries have data, %d of them about what only the agents' recorded metrics have\n", p.Version, total, fromRecord)
	}
	return err
}

func (p *server) unanswered() (left []query, total, fromRecord int, err error) {
	for name, d := range p.Dashboards {
		ofReal, err := p.choose(d, real)
		if err != nil {
			return nil, 0, 0, err
		}
		ofRecorded, err := p.choose(d, recorded)
		if err != nil {
			return nil, 0, 0, err
		}
		for _, q := range d.queries(name) {
			total++
			replace, isUnseen := ofReal, unseen.MatchString(q.Expr)
			if isUnseen {
				replace = ofRecorded
				fromRecord++
			}
			q.Expr = replace.Replace(q.Expr)
			if ok, err := p.hasData(q.Expr); err != nil || !ok {
				left = append(left, q)
			}
		}
	}
	for _, q := range slices.Concat(p.operands(), p.Foreign) {
		total++
		if unseen.MatchString(q.Expr) {
			fromRecord++
		}
		if ok, err := p.hasData(q.Expr); err != nil || !ok {
			left = append(left, q)
		}
	}
	return left, total, fromRecord, nil
}

// operands are the series that the alerts compare. An alert itself has no data while all is well.
func (p *server) operands() (all []query) {
	for _, r := range p.Rules.rules() {
		for _, s := range selectorsOf(r.Expr) {
			of := real
			if unseen.MatchString(s.name) {
				of = recorded
			}
			all = append(all, query{r.Alert, strings.ReplaceAll(s.String(), `slurmlet_dev_cluster!=""`, fmt.Sprintf("slurmlet_dev_cluster=%q", of))})
		}
	}
	return all
}

// alertsAreRight: Prometheus has computed each rule, and those and no others fire or wait whose cause is there, with
// words that are whole.
func (p *server) alertsAreRight() error {
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	var active struct {
		Alerts []struct{ Labels, Annotations map[string]string }
	}
	// A node that did not start is tried again after a minute, so that its alert may have gone on a slow machine.
	var was struct {
		Result []struct{ Metric map[string]string }
	}
	expected := caused
	if p.Version == "24.11" { // 26.05.5 mends what Debian's 24.11 has still
		expected = append(slices.Clone(caused), "SlurmVersionVulnerable")
	}
	missing := expected
	err := native.Within(40*time.Second, "some alerts do not become active", func() bool {
		if p.Ask("query", url.Values{"query": {fmt.Sprintf("count by (alertname) (count_over_time(ALERTS{slurmlet_dev_cluster=%q}[10m]))", real)}}, &was) != nil {
			return false
		}
		missing = slices.Clone(expected)
		for _, r := range was.Result {
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == r.Metric["alertname"] })
		}
		return len(missing) == 0
	})
	if err != nil {
		return fmt.Errorf("%w: %v", err, missing)
	}
	if err := p.Ask("alerts", nil, &active); err != nil {
		return err
	}
	refused := ""
	for _, a := range active.Alerts {
		if a.Labels["alertname"] == "SlurmConfigRefused" && a.Labels["slurmlet_dev_cluster"] == real {
			refused = a.Annotations["summary"]
		}
	}
	if err := p.Ask("rules", nil, &rules); err != nil {
		return err
	}
	for _, group := range rules.Groups {
		for _, r := range group.Rules {
			if r.Health != "ok" {
				return fmt.Errorf("prometheus cannot compute %s: %s %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if want := "an edit of Slurm's configuration is not live: slurm.conf, line 1"; refused != want {
		return fmt.Errorf("the summary of SlurmConfigRefused is %q, not %q", refused, want)
	}
	for _, a := range active.Alerts {
		for _, text := range a.Annotations {
			if strings.Contains(text, "error expanding") || strings.Contains(text, "<no value>") {
				return fmt.Errorf("%s says: %s", a.Labels["alertname"], text)
			}
		}
		if a.Labels["slurmlet_dev_cluster"] == real && !slices.Contains(expected, a.Labels["alertname"]) {
			return fmt.Errorf("%s is active, and nothing has caused it: %v", a.Labels["alertname"], a.Labels)
		}
	}
	return nil
}

// caused are the alerts that the cluster's troubles make active: what edits, populate and deletePod do, elasticSets,
// and nodes without cgroups.
var caused = []string{"SlurmConfigRefused", "SlurmJobsOutlastGracePeriod", "SlurmLimitsNotEnforced", "SlurmNodesDrainedByFault", "SlurmNodesDrainedLong", "SlurmJobsWaitForNodes", "SlurmJobsCannotRun", "SlurmLicensesExhausted", "SlurmNodesDown", "SlurmElasticSetRefused", "SlurmElasticNodesFail"}

// autoscales: each trigger has the value for KEDA that Slurm's commands tell.
func (p *server) autoscales() error {
	d, err := p.cluster.demand()
	if err != nil {
		return err
	}
	want := float64(d.alloc + d.mixed + d.pending - d.held)
	if d.alloc+d.mixed != 2 || d.pending != 2 || d.held != 1 {
		return fmt.Errorf("the partition cpu stands otherwise: %+v", d)
	}
	for _, one := range p.Triggers {
		one.Metadata["serverAddress"] = "http://" + string(p.Server)
		value, err := one.value(context.Background(), time.Now())
		if err != nil || value != want {
			return fmt.Errorf("KEDA reads %v (error: %v) and not %v: %s", value, err, want, one.Metadata["query"])
		}
	}
	return nil
}
