package main

import "strings"

// dashboard is a page of Grafana's.
type dashboard struct {
	// name is the file's, and the end of the uid by which links find the dashboard.
	name, title, about string
	variables          []variable
	rows               []row
}

// variable is what the reader chooses at the top of the page: one of the values of a label.
type variable struct {
	name, title string
	// metric is where the values come from, with its matchers, and label the label.
	metric, label string
	// all: the reader may choose several, or all.
	all bool
}

// row has a title and the panels below it. A row that is full goes on in the next line.
type row struct {
	title  string
	panels []panel
}

// panel is one graph, figure or table.
type panel struct {
	kind        kind
	title, help string
	// width is of 24; height is in Grafana's units.
	width, height int
	// unit is one of Grafana's: short, bytes, s, percentunit, …
	unit    string
	queries []query
	stacked bool
	// bad makes the figure red where it is greater.
	bad limit
	// hidden are labels that a table does not show, units are those of its columns.
	hidden []string
	units  map[string]string
}

type kind string

const (
	graph  kind = "timeseries"
	figure kind = "stat"
	table  kind = "table"
)

// query is PromQL, and the legend of what it returns: {{label}} stands for a label's value. In a
// table of several queries it is the name of the column.
type query struct{ expr, legend string }

// small and half are heights.
const (
	small = 4
	large = 8
)

// limit is what a figure should not be above; none without set.
type limit struct {
	set   bool
	value float64
}

func above(value float64) limit { return limit{true, value} }

// The matchers of the series of the cluster that the reader has chosen, and of a node set's and a
// node's.
const (
	ofCluster = `namespace="$namespace",slurmlet_dev_cluster="$cluster"`
	ofSet     = ofCluster + `,slurmlet_dev_node_set=~"$node_set"`
)

var (
	namespaceVariable = variable{name: "namespace", title: "Namespace", metric: `slurmlet_build_info{slurmlet_dev_cluster!=""}`, label: "namespace"}
	clusterVariable   = variable{name: "cluster", title: "Cluster", metric: `slurmlet_build_info{namespace="$namespace"}`, label: "slurmlet_dev_cluster"}
)

// of is a metric of the chosen cluster, with further matchers.
func of(metric string, matchers ...string) string {
	return metric + "{" + strings.Join(append([]string{ofCluster}, matchers...), ",") + "}"
}

// sum adds a metric up, by labels. Of what is the cluster's there is one series, whichever pod
// slurmctld is in.
func sum(metric string, by ...string) string {
	if len(by) == 0 {
		return "sum(" + of(metric) + ")"
	}
	return "sum by (" + strings.Join(by, ", ") + ") (" + of(metric) + ")"
}

// stat is a small figure, and line is a graph of half the screen.
func stat(title, help, unit string, bad limit, expr string) panel {
	return panel{kind: figure, title: title, help: help, width: 3, height: small, unit: unit, bad: bad, queries: []query{{expr, ""}}}
}

func line(title, help, unit string, queries ...query) panel {
	return panel{kind: graph, title: title, help: help, width: 12, height: large, unit: unit, queries: queries}
}

func area(title, help, unit string, queries ...query) panel {
	p := line(title, help, unit, queries...)
	p.stacked = true
	return p
}

var dashboards = []dashboard{clusterBoard, nodeSetBoard, nodeBoard, usersBoard, agents}
