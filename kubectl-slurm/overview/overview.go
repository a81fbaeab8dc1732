// Package overview says how a cluster stands, in a screenful: what pods, slurmctld and the agents say goes in, a Report
// comes out.
package overview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
	"github.com/slurmlet/slurmlet/kubectl-slurm/why"
)

// Facts are what is known of a cluster. What is nil was not to be had.
type Facts struct {
	Cluster, Namespace string
	// Pods are all pods by their host names, Agents what their agents say, by the same names.
	Pods   map[string]*why.Pod
	Agents map[string]*slurm.Agent
	// Groups are the nodes of all partitions, Jobs counts by state.
	Groups []slurm.Group
	Jobs   map[string]int
	// Nodes counts by state: what slurmctld's agent tells everybody, where Groups is nil.
	Nodes   map[string]int
	Unknown []string
}

// Report is how the cluster stands.
type Report struct {
	Cluster   string         `json:"cluster"`
	Namespace string         `json:"namespace"`
	Daemons   []Daemon       `json:"daemons"`
	Sets      []Set          `json:"nodeSets"`
	Nodes     map[string]int `json:"nodes,omitempty"`
	Jobs      map[string]int `json:"jobs,omitempty"`
	// Configuration is the hash of slurmctld's, Refused what keeps an edit from being live.
	Configuration string   `json:"configuration,omitempty"`
	Refused       []string `json:"refused,omitempty"`
	Drains        []Drain  `json:"drains,omitempty"`
	Warnings      []string `json:"warnings,omitempty"`
	Unknown       []string `json:"unknown,omitempty"`
}

// Daemon is a pod of another role than slurmd.
type Daemon struct {
	Role    string `json:"role"`
	Pod     string `json:"pod"`
	Machine string `json:"machine,omitempty"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Version string `json:"version,omitempty"`
}

// Set are the nodes of a node set, by sinfo's states. Pods and Ready count pods.
type Set struct {
	Name   string         `json:"name"`
	Pods   int            `json:"pods"`
	Ready  int            `json:"ready"`
	States map[string]int `json:"states,omitempty"`
}

// Drain is a node, or several that are alike, that get no jobs.
type Drain struct {
	Nodes string `json:"nodes"`
	State string `json:"state"`
	// Owner is who has set that: slurmlet, Kubernetes, slurmctld, or a user's name.
	Owner  string `json:"owner"`
	Since  string `json:"since,omitempty"`
	Reason string `json:"reason"`
}

// roles are the daemons in the order in which they are shown.
var roles = []string{"slurmctld", "slurmdbd", "slurmrestd", "login"}

// New makes a report.
func New(f Facts) Report {
	r := Report{Cluster: f.Cluster, Namespace: f.Namespace, Jobs: f.Jobs, Nodes: f.Nodes, Unknown: f.Unknown, Sets: f.sets(), Drains: f.drains()}
	for _, name := range slices.Sorted(maps.Keys(f.Pods)) {
		p := f.Pods[name]
		if p.Role == "slurmd" {
			continue
		}
		d := Daemon{Role: p.Role, Pod: p.Name, Machine: p.Machine, State: stateOf(p)}
		if a := f.Agents[name]; a != nil {
			d.Version, d.Reason = a.Version, a.Reason
			if p.Deleting.IsZero() {
				d.State = a.State
			}
			r.take(a, d.Role)
		}
		if d.Reason == "" {
			d.Reason = cmp.Or(p.Unscheduled, strings.Trim(p.WaitsFor+" "+p.Message, " "))
		}
		r.Daemons = append(r.Daemons, d)
	}
	slices.SortStableFunc(r.Daemons, func(a, b Daemon) int {
		return cmp.Compare(slices.Index(roles, a.Role), slices.Index(roles, b.Role))
	})
	if !slices.ContainsFunc(r.Daemons, func(d Daemon) bool { return d.Role == "slurmctld" }) {
		r.Warnings = append(r.Warnings, "The cluster has no pod of slurmctld in this namespace.")
	}
	return r
}

// take has what the agent of a daemon warns of.
func (r *Report) take(a *slurm.Agent, role string) {
	warn := func(format string, args ...any) {
		r.Warnings = append(r.Warnings, role+": "+fmt.Sprintf(format, args...))
	}
	if a.Release != nil && role == "slurmctld" {
		for _, one := range a.Release.Advisories {
			warn("Slurm %s: %s: %s", a.Release.Version, one.Name, one.What)
		}
	}
	if c := a.Conf; c != nil {
		r.Configuration = strings.TrimSpace(c.Live + " " + c.Doing)
		if c.Refused != nil {
			r.Refused = c.Refused.Why
		}
		if len(c.Missed) > 0 {
			warn("%d nodes have not taken the configuration: %s", len(c.Missed), strings.Join(c.Missed[:min(5, len(c.Missed))], ", "))
		}
		for _, text := range slices.Concat(c.Faults, c.Warnings) {
			warn("%s", text)
		}
	}
	if a.ConfFault != "" {
		warn("%s", a.ConfFault)
	}
	if e := a.Elastic; e != nil {
		if e.Fault != "" {
			warn("%s", e.Fault)
		}
		for i := range e.Sets {
			s := &e.Sets[i]
			for _, w := range s.Failing {
				warn("nodes of the elastic set %s do not start (%s): %s %s", s.Name, w.Nodes, w.Reason, w.Note)
			}
			if s.Failed > 0 {
				warn("nodes of the elastic set %s have not started: %s", s.Name, s.FailedNodes)
			}
		}
	}
	if a.LastEnd != nil {
		warn("the daemon has ended at %s: %s", a.LastEnd.At.Format("2006-01-02T15:04:05Z"), a.LastEnd.Text)
	}
}

// stateOf is a pod's state where its agent says nothing.
func stateOf(p *why.Pod) string {
	switch {
	case !p.Deleting.IsZero():
		return "Terminating"
	case p.Waits != "":
		return p.Waits
	case p.Reason != "":
		return p.Reason
	case p.Ready:
		return "Ready"
	case p.Phase == "Running":
		return "not Ready"
	}
	return p.Phase
}

// sets counts nodes and pods by node set. A node without a pod is of the elastic set that has its name.
func (f *Facts) sets() []Set {
	byName := map[string]*Set{}
	of := func(name string) *Set {
		if byName[name] == nil {
			byName[name] = &Set{Name: name, States: map[string]int{}}
		}
		return byName[name]
	}
	for _, p := range f.Pods {
		if p.Role != "slurmd" {
			continue
		}
		s := of(cmp.Or(p.Set, p.Elastic, "(none)"))
		s.Pods++
		if p.Ready {
			s.Ready++
		}
	}
	elastic := f.elasticNames()
	seen := map[string]bool{}
	for i := range f.Groups {
		g := &f.Groups[i]
		for _, node := range g.Names() {
			if seen[node] {
				continue
			}
			seen[node] = true
			name := elastic[node]
			if p := f.Pods[node]; p != nil {
				name = cmp.Or(p.Set, p.Elastic)
			}
			of(cmp.Or(name, "(none)")).States[g.State+g.Mark]++
		}
	}
	var all []Set
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, *byName[name])
	}
	return all
}

// elasticNames are the elastic sets of nodes.
func (f *Facts) elasticNames() map[string]string {
	all := map[string]string{}
	for _, a := range f.Agents {
		if a == nil || a.Elastic == nil {
			continue
		}
		for i := range a.Elastic.Sets {
			for _, node := range (&slurm.Group{Nodes: a.Elastic.Sets[i].Nodes}).Names() {
				all[node] = a.Elastic.Sets[i].Name
			}
		}
	}
	return all
}

// drains are the nodes that get no jobs, each once.
func (f *Facts) drains() (all []Drain) {
	seen := map[string]bool{}
	for i := range f.Groups {
		g := &f.Groups[i]
		if !g.Closed() && g.Reason == "" || seen[g.Nodes+g.State] {
			continue
		}
		if !g.Closed() && reasons.Of(g.Reason).IsSlurmlet() {
			continue // the reason of a drain that is over
		}
		seen[g.Nodes+g.State] = true
		all = append(all, Drain{Nodes: g.Nodes, State: g.State + g.Mark, Owner: Owner(g.Reason, g.User), Since: g.Since, Reason: g.Reason})
	}
	return all
}

// Owner is who has given a node's reason.
func Owner(reason, user string) string {
	switch reasons.Of(reason) {
	case reasons.Agent, reasons.Disk, reasons.Pods:
		return "slurmlet"
	case reasons.Kubernetes:
		return "Kubernetes, by slurmlet"
	case reasons.Command:
		return "slurmlet drain"
	case reasons.Silent, reasons.Relaunched, reasons.Registration, reasons.Nobody:
		return "slurmctld"
	}
	return cmp.Or(user, "somebody")
}
