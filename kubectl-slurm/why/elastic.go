package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
)

// elasticCures are what docs/run/elastic.md says of each reason.
var elasticCures = map[string]Cure{
	"Unschedulable":     advise("bring a machine of that kind: see the set's nodeSelector, tolerations and limits, and the autoscaler's log"),
	"ImagePullBackOff":  advise("correct the set's image, or give its pods the registry's password"),
	"ErrImagePull":      advise("correct the set's image, or give its pods the registry's password"),
	"InvalidImageName":  advise("correct the set's image"),
	"ErrImageNeverPull": advise("bring the image to the machines, or let it be pulled (image.pullPolicy)"),
	"FailedCreate":      advise("allow the pods: a quota, Pod Security or another admission refuses them"),
	"NoTemplate":        advise("see elastic.enabled and elastic.namespaces of charts/slurmlet, and whether the set has its PodTemplate"),
	"BadTemplate":       advise("correct the value of the PodTemplate that the reason names"),
}

// elastic is what keeps the pods of elastic sets from starting that the job or the node may wait for.
func (f *Facts) elastic() (causes []Cause) {
	if f.Controller == nil || f.Controller.Elastic == nil {
		return nil
	}
	for i := range f.Controller.Elastic.Sets {
		s := &f.Controller.Elastic.Sets[i]
		sure := f.concerns(s)
		if sure == "" {
			continue
		}
		failed := setOf(s.FailedNodes)
		for _, w := range s.Failing {
			nodes := setOf(w.Nodes)
			maps.DeleteFunc(nodes, func(name string, _ bool) bool { return failed[name] }) // givenUp has them
			if len(nodes) == 0 || f.Job == nil && !nodes[f.Name] {
				continue
			}
			text := fmt.Sprintf("Nodes of the elastic set %s do not start (%s): %s: %s", s.Name, w.Nodes, w.Reason, w.Note)
			causes = append(causes, f.elasticCause(sure, text, w.Nodes, w.Reason, w.Note))
		}
		causes = append(causes, f.givenUp(s, sure)...)
	}
	return causes
}

// elasticCause is of nodes whose pods do not start, for a reason of Kubernetes' or of slurmlet's controller.
func (f *Facts) elasticCause(sure Certainty, text, nodes, reason, note string) Cause {
	c := Cause{Kind: "elastic", Sure: sure, Text: text}
	if cure, known := elasticCures[reason]; known {
		c.Cures = append(c.Cures, cure)
	}
	if strings.Contains(note, "exceeded quota") {
		c.Cures = append(c.Cures, do("see the quota, and raise it", "kubectl", "describe", "resourcequota"))
	}
	if f.Job != nil {
		c.Cures = append(c.Cures, do("see more", "kubectl", "slurm", "why", firstName(nodes)))
	}
	return c
}

// givenUp are nodes of a set that are DOWN because they did not start, by the reason that slurmctld's agent has left in
// their records.
func (f *Facts) givenUp(s *slurm.Set, sure Certainty) (causes []Cause) {
	failed := setOf(s.FailedNodes)
	records := f.Groups
	if f.Node != nil {
		records = []slurm.Group{{Nodes: f.Name, Reason: f.Node.Reason}}
	}
	for i := range records {
		var nodes []string
		for _, name := range records[i].Names() {
			if failed[name] {
				delete(failed, name) // it may be in several partitions
				nodes = append(nodes, name)
			}
		}
		if len(nodes) == 0 {
			continue
		}
		reason, _ := strings.CutPrefix(reasons.First(records[i].Reason), reasons.ByAgent)
		word, note, _ := strings.Cut(reason, ": ")
		hosts := strings.Join(nodes, ",")
		if len(nodes) == len(records[i].Names()) {
			hosts = records[i].Nodes
		}
		c := f.elasticCause(sure, fmt.Sprintf("Nodes of the elastic set %s have not started (%s): %s", s.Name, hosts, reason), hosts, word, note)
		if !s.Retry.IsZero() {
			c.Details = []string{"slurmlet tries them again at " + at(s.Retry) + "."}
		}
		c.Cures = append(c.Cures, doSlurm("after a repair, have them tried now", "scontrol", "update", "nodename="+hosts, "state=resume"))
		causes = append(causes, c)
	}
	return causes
}

func setOf(hosts ...string) map[string]bool {
	all := map[string]bool{}
	for _, list := range hosts {
		for _, name := range (&slurm.Group{Nodes: list}).Names() {
			all[name] = true
		}
	}
	delete(all, "")
	return all
}

// concerns says how sure it is that the job or the node waits for a set's nodes; empty for not at all.
func (f *Facts) concerns(s *slurm.Set) Certainty {
	names := setOf(s.Nodes)
	in := func(name string) bool { return names[name] }
	if f.Job == nil {
		if in(f.Name) {
			return Certain
		}
		return ""
	}
	j := f.Job
	if slices.ContainsFunc(slices.Collect(maps.Keys(setOf(j.Nodes, j.Scheduled, j.Required))), in) {
		return Certain
	}
	if j.Nodes != "" || !slices.ContainsFunc(f.Groups, func(g slurm.Group) bool { return slices.ContainsFunc(g.Names(), in) }) {
		return "" // the job has other nodes, or its partitions have none of the set
	}
	lost := setOf(s.FailedNodes)
	for _, w := range s.Failing {
		maps.Copy(lost, setOf(w.Nodes))
	}
	for _, g := range f.Groups {
		would := func(name string) bool { return !lost[name] && (!in(name) || g.Mark != "#") }
		if f.lacks(&g) == "" && !g.Closed() && slices.ContainsFunc(g.Names(), would) {
			return Likely // these nodes would do, too
		}
	}
	return Certain
}
