package papers

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// metricsPage is the page that lists all metrics.
const metricsPage = "docs/reference/metrics-list.md"

// Metric is one that an agent or the controller has.
type Metric struct {
	Name   string
	Labels []string
	Help   string
}

// metricFiles are golden files of tests, which have every metric once at least.
var metricFiles = []string{
	"agent/testdata/metrics/*.prom", "internal/slurmd/usage/testdata/*.prom",
	"internal/slurmctld/clusterview/series/testdata/native*.prom", "controller/testdata/metrics.prom",
}

var (
	helpLine   = regexp.MustCompile(`^# HELP (\w+) (.*)$`)
	sampleLine = regexp.MustCompile(`^(\w+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? \S+$`)
	labelName  = regexp.MustCompile(`(\w+)="(?:[^"\\]|\\.)*"`)
)

// ReadMetrics reads the golden files below root. A metric has the labels that it has in any of them.
func ReadMetrics(root string) (map[string]Metric, error) {
	all := map[string]Metric{}
	for _, pattern := range metricFiles {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("no files %s: %w", pattern, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			readMetrics(string(text), all)
		}
	}
	return all, nil
}

func readMetrics(text string, all map[string]Metric) {
	lines := bufio.NewScanner(strings.NewReader(text))
	last := ""
	for lines.Scan() {
		if m := helpLine.FindStringSubmatch(lines.Text()); m != nil {
			last = m[1]
			one := all[last]
			one.Name, one.Help = last, strings.TrimSuffix(m[2], ".")
			all[last] = one
			continue
		}
		m := sampleLine.FindStringSubmatch(lines.Text())
		if m == nil || !strings.HasPrefix(m[1], last) || last == "" {
			continue
		}
		one := all[last]
		for _, label := range labelName.FindAllStringSubmatch(m[2], -1) {
			if label[1] != "le" && !slices.Contains(one.Labels, label[1]) {
				one.Labels = append(one.Labels, label[1])
			}
		}
		all[last] = one
	}
}

// metricGroup is a section of the page.
type metricGroup struct {
	head, about string
	names       *regexp.Regexp
}

// metricGroups are all sections. A metric is in the first one that has its name.
var metricGroups = []metricGroup{
	{"Every pod", "The rows of keys are there where auth/slurm is used.", regexp.MustCompile(`^slurmlet_(build_info|agent_|state|ready$|started$|daemon_|log_|keys_|slurm_info|slurm_advisories)`)},
	{"Every pod, with SLURMLET_PEERS", "", regexp.MustCompile(`^slurmlet_peers`)},
	{"Every pod, from SIGTERM on", "", regexp.MustCompile(`^slurmlet_stopping_`)},
	{"slurmd's and login pods", "", regexp.MustCompile(`^slurmlet_(config_missed$|sack_)`)},
	{"slurmd's pod, with SLURMLET_HOLDS", "", regexp.MustCompile(`^slurmlet_holds`)},
	{"Login pods, with SLURMLET_GATEWAY_USERS", "", regexp.MustCompile(`^slurmlet_gateway_`)},
	{"slurmctld's and login pods", "", regexp.MustCompile(`^slurmlet_leavers_`)},
	{"slurmctld's pod", "", regexp.MustCompile(`^slurmlet_(accounts_|config_|records_kept|jobs_)`)},
	{"slurmctld's pod, with SLURMLET_PEERS", "", regexp.MustCompile(`^slurmlet_(records|elastic)_`)},
	{"slurmd's pod", "", regexp.MustCompile(`^slurmlet_(node_(info|cpus|memory_bytes|tmp_disk_bytes|gres|misfits|fault|refused)$|cgroup_|steps_|strays_|files_|disk_|left_files_)`)},
	{"slurmd's pod, with SLURMLET_JOB_CONTAINERS", "", regexp.MustCompile(`^slurmlet_containers_`)},
	{
		"slurmd's pod: what jobs use", "`slurmlet_node_daemons_…` tells the same of the agent, slurmd and what they run,\n`slurmlet_node_container_…` of the whole container, and with `SLURMLET_JOB_METRICS`\n`slurmlet_job_…{job_id}` of so many jobs.",
		regexp.MustCompile(`^slurmlet_node_(jobs|usage|gpu)`),
	},
	{"login pods", "", regexp.MustCompile(`^slurmlet_(sessions$|users_|service_)`)},
	{"The controller", "Go's own metrics (`go_…`, `process_…`) come with these.", regexp.MustCompile(`^slurmlet_controller_`)},
	{"The cluster, by slurmlet", "slurmctld's agent has these.", regexp.MustCompile(`^slurmlet_cluster_`)},
	{"The cluster, by Slurm's names", "slurmctld's agent has these, for each version of Slurm. Those of users and\naccounts need `SLURMLET_METRICS_USERS`.", regexp.MustCompile(`^slurm_`)},
}

// twin is the metric of all jobs that tells the same as one of the daemons, of the container or of one job; empty for none.
func twin(name string) string {
	for _, prefix := range []string{"node_daemons_", "node_container_", "job_"} {
		if rest, found := strings.CutPrefix(name, "slurmlet_"+prefix); found {
			return "slurmlet_node_jobs_" + rest
		}
	}
	return ""
}

// MetricsPage is the text of the page, and the metrics that are in none of its sections.
func MetricsPage(all map[string]Metric) (text string, missing []string) {
	rows := make([]strings.Builder, len(metricGroups))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, known := all[twin(name)]; known {
			continue
		}
		group := slices.IndexFunc(metricGroups, func(g metricGroup) bool { return g.names.MatchString(name) })
		if group < 0 {
			missing = append(missing, name)
			continue
		}
		m := all[name]
		fmt.Fprintf(&rows[group], "| `%s` | %s | %s |\n", name, strings.Join(m.Labels, ", "), strings.ReplaceAll(m.Help, "|", "\\|"))
	}
	var b strings.Builder
	b.WriteString("# All metrics\n\n[Metrics](metrics.md) says what they are for. Times are seconds since 1970. What is unknown is\nmissing, and is no zero. The golden files of tests have every metric, and this command writes the\npage from them: " +
		"`go test ./e2e/papers -run TestMetricsPage -update`.\n")
	for i, g := range metricGroups {
		fmt.Fprintf(&b, "\n## %s\n", g.head)
		if g.about != "" {
			b.WriteString(g.about + "\n\n")
		}
		b.WriteString("| metric | labels | meaning |\n|---|---|---|\n" + rows[i].String())
	}
	return b.String(), missing
}
