package why

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
)

// slicesOr is the second where the first is empty.
func slicesOr[T any](first []T, second func() []T) []T {
	if len(first) > 0 {
		return first
	}
	return second()
}

// resources compares the nodes with what the job wants: none is large enough, those that are get no jobs, or others
// have them.
func (f *Facts) resources(sure Certainty) []Cause {
	j := f.Job
	var best *fit
	for _, name := range j.InPartitions() {
		if one := f.fitIn(name); one != nil && (best == nil || one.open > best.open || one.open == best.open && one.all > best.all) {
			best = one
		}
	}
	if best == nil {
		return nil
	}
	want := int(max(1, j.NodeCount.Number))
	switch {
	case best.all < want || best.cpus < j.CPUs.Number:
		return []Cause{f.tooLarge(best, want, sure)}
	case best.open < want:
		return f.closedBy(best, want, sure)
	case f.reservedNodes(best) != nil:
		return f.reservedNodes(best)
	case sure == Certain:
		return []Cause{f.busy(best, want)}
	}
	return nil
}

// fit is what a partition has for the job.
type fit struct {
	name string
	// all are the nodes that are large enough, open those of them that get jobs, and cpus those of all.
	all, open int
	cpus      int64
	// idle are the CPUs of the open ones that no job has.
	idle int64
	// closed are the groups that are large enough, and get no jobs. small are those that are not, and why.
	closed []slurm.Group
	small  []string
	fits   []slurm.Group
}

func (f *Facts) fitIn(name string) *fit {
	one := &fit{name: name}
	found := false
	for _, g := range f.Groups {
		if g.Partition != name {
			continue
		}
		found = true
		if why := f.lacks(&g); why != "" {
			one.small = append(one.small, fmt.Sprintf("%s: %s.", g.Nodes, why))
			continue
		}
		g.Count = f.countFor(&g)
		if g.Count == 0 {
			continue
		}
		one.all += g.Count
		one.cpus += int64(g.Count) * g.CPUs
		one.fits = append(one.fits, g)
		if g.Closed() {
			one.closed = append(one.closed, g)
			continue
		}
		one.open += g.Count
		one.idle += g.Idle
	}
	if !found {
		return nil
	}
	return one
}

// countFor are the nodes of a group that the job may have by their names.
func (f *Facts) countFor(g *slurm.Group) int {
	j := f.Job
	if j.Required == "" && j.Excluded == "" {
		return g.Count
	}
	required, excluded := (&slurm.Group{Nodes: j.Required}).Names(), (&slurm.Group{Nodes: j.Excluded}).Names()
	n := 0
	for _, name := range g.Names() {
		// More nodes than the required ones may come.
		more := j.Required == "" || int(j.NodeCount.Number) > len(required)
		if (more || slices.Contains(required, name)) && !slices.Contains(excluded, name) {
			n++
		}
	}
	return n
}

// lacks says what the nodes of a group have too little of for the job, empty for nothing.
func (f *Facts) lacks(g *slurm.Group) string {
	j := f.Job
	cpus, memory := j.Each()
	switch {
	case g.CPUs < cpus:
		return fmt.Sprintf("%d CPUs, and the job wants %d on a node", g.CPUs, cpus)
	case g.Memory < memory:
		return fmt.Sprintf("%s, and the job wants %s on a node", mib(g.Memory), mib(memory))
	case j.Disk.Is() && g.Disk < j.Disk.Number:
		return fmt.Sprintf("%s of disk, and the job wants %s", mib(g.Disk), mib(j.Disk.Number))
	}
	if missing := missingFeature(j.Features, g.Features); missing != "" {
		return "no feature " + missing
	}
	return missingGres(j.Gres, g.Gres)
}

// missingFeature judges a list that wants all of its names (a&b). Another expression is not judged.
func missingFeature(want, have string) string {
	if want == "" || strings.ContainsAny(want, "|[]()*!") {
		return ""
	}
	for one := range strings.FieldsFuncSeq(want, func(r rune) bool { return r == '&' || r == ',' }) {
		if !slices.Contains(strings.Split(have, ","), one) {
			return one
		}
	}
	return ""
}

// missingGres judges gres/gpu:2 or gres:gpu:h200:2 beside gpu:h200:8(S:0),other:1.
func missingGres(want, have string) string {
	for one := range strings.SplitSeq(want, ",") {
		one, is := strings.CutPrefix(strings.Replace(one, "gres:", "gres/", 1), "gres/")
		if !is {
			continue
		}
		name, count := gresCount(one)
		found := int64(0)
		for h := range strings.SplitSeq(have, ",") {
			text, _, _ := strings.Cut(h, "(")
			if other, n := gresCount(text); other == name || strings.HasPrefix(other, name+":") {
				found += n
			}
		}
		if found < count {
			return fmt.Sprintf("%d of %s, and the job wants %d on a node", found, name, count)
		}
	}
	return ""
}

func gresCount(text string) (name string, count int64) {
	text = strings.Replace(text, "=", ":", 1)
	i := strings.LastIndex(text, ":")
	if i < 0 {
		return text, 1
	}
	n, err := strconv.ParseInt(text[i+1:], 10, 64)
	if err != nil {
		return text, 1
	}
	return text[:i], n
}

func (f *Facts) tooLarge(best *fit, want int, sure Certainty) Cause {
	j := f.Job
	c := Cause{
		Kind: "too large", Sure: sure,
		Text:    fmt.Sprintf("The job wants %d nodes, and %d of the partition %s are large enough, whatever their state.", want, best.all, best.name),
		Details: first(best.small, 5),
	}
	if best.all >= want {
		c.Text = fmt.Sprintf("The job wants %d CPUs, and all nodes of the partition %s have %d.", j.CPUs.Number, best.name, best.cpus)
	}
	if j.Memory.Is() {
		if most := f.largest(best.name); most > 0 && most < j.Memory.Number {
			c.Cures = append(c.Cures, doSlurm("let it have less memory", "scontrol", "update", "jobid="+j.Whole(), fmt.Sprintf("minmemorynode=%d", most)))
		}
	}
	c.Cures = append(c.Cures, advise("cancel it and ask for less, or make larger nodes: resources.limits of a node set (docs/run/node-sets.md)"))
	return c
}

// largest is the memory of the largest nodes of a partition, in MiB.
func (f *Facts) largest(name string) (most int64) {
	for _, g := range f.Groups {
		if g.Partition == name {
			most = max(most, g.Memory)
		}
	}
	return most
}

// closedBy says who keeps jobs from the nodes that are large enough.
func (f *Facts) closedBy(best *fit, want int, sure Certainty) (causes []Cause) {
	for i := range best.closed {
		c := f.closedGroup(&best.closed[i])
		c.Sure = sure
		c.Details = append([]string{fmt.Sprintf("The job wants %d nodes, and %d of those that are large enough get jobs.", want, best.open)}, c.Details...)
		causes = append(causes, c)
	}
	return causes
}

// closedGroup says of alike nodes why they get no jobs, and what ends that.
func (f *Facts) closedGroup(g *slurm.Group) Cause {
	who := ""
	if g.User != "" {
		who = " by " + g.User
	}
	if g.Since != "" {
		who += " since " + g.Since
	}
	c := Cause{Kind: "drained", Sure: Certain, Text: fmt.Sprintf("%s: %s%s: %s.", g.Nodes, g.State, who, strings.TrimSuffix(cmp.Or(g.Reason, "without a reason"), "."))}
	node := firstName(g.Nodes)
	switch owner := reasons.Of(g.Reason); {
	case owner == reasons.Kubernetes:
		c.Kind = "machine"
		c.Details = append(c.Details, "slurmlet has drained the nodes, because Kubernetes wants no jobs on their machines. It lifts the drain itself when that is over.")
		machines := f.machinesOf(g.Names())
		for _, name := range machines {
			c.Details = append(c.Details, f.machineSays(name)...)
			c.Cures = append(c.Cures, f.giveBack(name)...)
		}
		if len(machines) == 0 {
			c.Cures = []Cure{do("see which machine it is", "kubectl", "slurm", "why", node)}
		}
	case owner == reasons.Disk:
		c.Kind = "disk"
		c.Cures = []Cure{advise("make room on the pod's disk: slurmlet lifts the drain itself then")}
	case owner == reasons.Pods:
		c.Kind = "pods"
		c.Details = append(c.Details, "slurmlet lifts that itself when the pods are gone.")
		c.Cures = []Cure{advise("see why these pods do not end: kubectl describe pod")}
	case owner == reasons.Agent:
		c.Kind = "slurmlet"
		c.Details = append(c.Details, "slurmlet has set that, and lifts it itself.")
		c.Cures = []Cure{do("see what it waits for", "kubectl", "slurm", "why", node)}
	case owner == reasons.Silent || owner == reasons.Nobody || owner == reasons.Registration || g.State == "down":
		c.Kind = "down"
		c.Cures = []Cure{do("see what has become of it", "kubectl", "slurm", "why", node)}
	default:
		for _, name := range first(g.Names(), 3) {
			c.Cures = append(c.Cures, do("let it have jobs again", "kubectl", "slurm", "resume", name))
		}
		if g.Count > 3 {
			c.Cures = []Cure{doSlurm("let them have jobs again", "scontrol", "update", "nodename="+g.Nodes, "state=resume")}
		}
	}
	return c
}

// mostMachines bounds those of one answer.
const mostMachines = 3

// machinesOf are those that nodes' pods run on.
func (f *Facts) machinesOf(nodes []string) (machines []string) {
	for _, name := range nodes {
		if pod := f.Pods[name]; pod != nil && pod.Machine != "" && !slices.Contains(machines, pod.Machine) && len(machines) < mostMachines {
			machines = append(machines, pod.Machine)
		}
	}
	return machines
}

// giveBack are the commands after which Kubernetes takes new pods on a machine.
func (f *Facts) giveBack(name string) (cures []Cure) {
	m := f.Machines[name]
	if m == nil || m.lost() {
		return f.machineCures(name)
	}
	if m.Cordoned {
		cures = append(cures, do("when the machine may have jobs again", "kubectl", "uncordon", name))
	}
	for _, taint := range m.Taints {
		if strings.HasPrefix(taint, kubernetesTaint) {
			continue
		}
		cures = append(cures, do("when the machine "+name+" may have jobs again, take its taint away", "kubectl", "taint", "node", name, taint+"-"))
	}
	return slicesOr(cures, func() []Cure { return f.machineCures(name) })
}

// reservedNodes: reservations of others have the nodes, or will before the job could be over.
func (f *Facts) reservedNodes(best *fit) (causes []Cause) {
	j := f.Job
	if j.Reason != "ReqNodeNotAvail" && !strings.Contains(j.Description, "reserved") && j.Reason != "Resources" {
		return nil
	}
	var candidates []string
	for i := range best.fits {
		if j.Required == "" {
			candidates = append(candidates, best.fits[i].Names()...)
		}
	}
	if j.Required != "" {
		candidates = (&slurm.Group{Nodes: j.Required}).Names()
	}
	for i := range f.Reservations {
		r := &f.Reservations[i]
		if r.Name == j.Reservation || !slices.ContainsFunc((&slurm.Group{Nodes: r.Nodes}).Names(), func(n string) bool { return slices.Contains(candidates, n) }) {
			continue
		}
		c := Cause{
			Kind: "reserved", Sure: Certain,
			Text: fmt.Sprintf("The reservation %s has %s until %s.", r.Name, r.Nodes, at(r.End.Time())),
		}
		if j.Reason != "ReqNodeNotAvail" {
			c.Sure = Likely
		}
		if start := r.Start.Time(); start.After(f.Now) {
			c.Text = fmt.Sprintf("The reservation %s has %s from %s (in %s), and the job (%s) might not be over by then.", r.Name, r.Nodes, at(start), in(start.Sub(f.Now)), minutes(j.Limit))
			if left := int64(start.Sub(f.Now).Minutes()) - 2; left > 0 {
				c.Cures = append(c.Cures, doSlurm("give the job so little time that it is over before", "scontrol", "update", "jobid="+j.Whole(), fmt.Sprintf("timelimit=%d", left)))
			}
		}
		c.Cures = append(c.Cures, doSlurm("or delete the reservation", "scontrol", "delete", "reservation="+r.Name))
		causes = append(causes, c)
	}
	return causes
}

// busy: other jobs have what this one wants.
func (f *Facts) busy(best *fit, want int) Cause {
	j := f.Job
	c := Cause{
		Kind: "resources", Sure: Certain,
		Text:    fmt.Sprintf("Other jobs have the nodes: of %d that are large enough and get jobs, %d CPUs are free, and the job wants %d CPUs on %d nodes.", best.open, best.idle, j.CPUs.Number, want),
		Details: []string{f.expected()},
	}
	if best.idle >= j.CPUs.Number {
		c.Sure = Likely
		c.Text = fmt.Sprintf("The job is next. %d CPUs of %d nodes are free, which may be too little on each node, too little memory, or what slurmctld gives it at its next turn.", best.idle, best.open)
	}
	if len(f.Queue) > 0 && f.Queue[0].Job == j.Label() {
		c.Details = append(c.Details, "The job is the first in turn.")
	}
	for i := range best.closed {
		other := f.closedGroup(&best.closed[i])
		c.Details = append(c.Details, "No jobs get "+other.Text)
	}
	c.Cures = []Cure{advise("wait, ask for less, or make more nodes (docs/run/node-sets.md)")}
	return c
}

func first(all []string, most int) []string {
	if len(all) <= most {
		return all
	}
	return append(slices.Clone(all[:most]), fmt.Sprintf("and %d more", len(all)-most))
}
