package why

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
)

// limitReason matches slurmctld's reasons of limits: AssocGrpCpuLimit, QOSMaxJobsPerUserLimit, QOSMaxMemoryPerJob.
var limitReason = regexp.MustCompile(`^(Assoc|QOS)(Grp|Max|Min)([A-Z][A-Za-z]*)$`)

func isLimit(reason string) bool {
	return limitReason.MatchString(reason) || reason == "AssociationJobLimit" || reason == "QOSJobLimit" || reason == "QOSResourceLimit" ||
		reason == "AssociationResourceLimit" || reason == "AssociationTimeLimit" || reason == "QOSTimeLimit"
}

// resourceOf are the TRES of limits by the words in slurmctld's reasons.
var resourceOf = map[string]string{"Cpu": "cpu", "CPU": "cpu", "Mem": "mem", "Memory": "mem", "Node": "node", "GRES": "gres/gpu", "License": "license/NAME", "Billing": "billing", "Energy": "energy", "BB": "bb/NAME"}

// sacctmgrKey is the limit behind a reason as slurm.Limit.What has it, empty where it is not known: GrpTRES=cpu for
// QOSGrpCpuLimit, MaxJobsPerUser for QOSMaxJobsPerUserLimit.
func sacctmgrKey(reason string) string {
	m := limitReason.FindStringSubmatch(strings.TrimSuffix(reason, "Limit"))
	if m == nil {
		return ""
	}
	scope, kind, rest := m[1], m[2], m[3]
	what, per := rest, ""
	if i := strings.Index(rest, "Per"); i > 0 {
		what, per = rest[:i], rest[i:]
	}
	mins := ""
	for _, suffix := range []string{"RunMinutes", "Minutes"} {
		if cut, has := strings.CutSuffix(what, suffix); has {
			what, mins = cut, map[string]string{"RunMinutes": "RunMins", "Minutes": "Mins"}[suffix]
		}
	}
	switch {
	case what == "Jobs" && kind == "Grp":
		return "GrpJobs"
	case what == "Jobs" && scope == "Assoc":
		return "MaxJobs"
	case what == "Jobs":
		return "MaxJobs" + per
	case strings.HasPrefix(what, "Submit"):
		return kind + "SubmitJobs" + per
	case what == "Wall" && kind == "Grp":
		return "GrpWall"
	case what == "Wall" || what == "WallDuration":
		return "MaxWall"
	}
	tres, known := resourceOf[what]
	if !known {
		return ""
	}
	return kind + "TRES" + mins + per + "=" + tres
}

// limit is a limit of a QOS or an association.
func (f *Facts) limit() Cause {
	j := f.Job
	key := sacctmgrKey(j.Reason)
	bounds := f.boundBy(key)
	if len(bounds) == 0 {
		return f.limitUnseen(key)
	}
	first := &bounds[0]
	c := Cause{Kind: "limit", Sure: Certain, Text: fmt.Sprintf("A limit of %s is reached (%s).", first.Whose(), j.Reason)}
	wait := advise("wait until other jobs are over that have a share of it")
	if first.Used < 0 { // it is of each job
		c.Text = fmt.Sprintf("The job wants more than %s lets a job have (%s).", first.Whose(), j.Reason)
		wait = advise("cancel the job, and submit one that wants less")
	}
	c.Cures = append(c.Cures, wait)
	for i := range bounds {
		b := &bounds[i]
		want := wants(j, b)
		detail := fmt.Sprintf("%s=%d of %s", b.What(), b.Most, b.Whose())
		if b.Used >= 0 {
			detail += fmt.Sprintf(": jobs have %d", b.Used)
		}
		if want > 0 {
			detail += fmt.Sprintf(", and this one wants %d", want)
		}
		c.Details = append(c.Details, detail+".")
		cure := doSlurm("or lift the limit, with -1, or raise it, with another number", raise(b, -1)...)
		if want > 0 {
			cure = doSlurm("or raise the limit so that the job fits, which it does within a minute; -1 lifts it", raise(b, max(b.Used, 0)+want)...)
		}
		c.Cures = append(c.Cures, cure)
	}
	return c
}

func raise(l *slurm.Limit, to int64) []string {
	return append(append([]string{"sacctmgr", "-i", "modify"}, l.Where()...), "set", fmt.Sprintf("%s=%d", l.What(), to))
}

// boundBy are the limits that keep the job: those of the key that it exceeds, or where that is not known, all of the key.
// The Max limits of an account are its users' where they have none of their own, and slurmctld shows them at each user.
func (f *Facts) boundBy(key string) (bounds []slurm.Limit) {
	var all []slurm.Limit
	for _, l := range f.Limits {
		if key == "" || !isOf(l.What(), key) || l.Entity == "account" && strings.HasPrefix(l.Key, "Max") {
			continue
		}
		all = append(all, l)
		if want := wants(f.Job, &l); want > 0 && max(l.Used, 0)+want > l.Most {
			bounds = append(bounds, l)
		}
	}
	return slicesOr(bounds, func() []slurm.Limit { return all })
}

// isOf compares a limit with the one that a reason means, which does not tell the name of a GRES or a license.
func isOf(what, key string) bool {
	kind, _, named := strings.Cut(key, "/")
	return what == key || named && strings.HasPrefix(what, kind+"/")
}

// wants is how much of a limit a job needs, 0 where that is not known.
func wants(j *slurm.Job, l *slurm.Limit) int64 {
	nodes := max(1, j.NodeCount.Number)
	switch {
	case strings.Contains(l.Key, "Mins") || strings.HasSuffix(l.Key, "PN"):
		return 0
	case strings.Contains(l.Key, "Jobs"):
		return 1
	case l.Key == "MaxWallPJ" && j.Limit.Is():
		return j.Limit.Number
	case l.TRES == "cpu":
		return j.CPUs.Number
	case l.TRES == "node":
		return nodes
	case l.TRES == "mem" && j.MemPerCPU.Is():
		return j.MemPerCPU.Number * j.CPUs.Number
	case l.TRES == "mem" && j.Memory.Is():
		return j.Memory.Number * nodes
	}
	return 0
}

// limitUnseen is a limit that slurmctld has not shown.
func (f *Facts) limitUnseen(key string) Cause {
	j := f.Job
	l := slurm.Limit{Entity: "qos", Name: j.QOS}
	if strings.HasPrefix(j.Reason, "Assoc") {
		l = slurm.Limit{Entity: "account", Name: j.Account}
	}
	c := Cause{
		Kind: "limit", Sure: Certain, Text: fmt.Sprintf("A limit of %s is reached (%s).", l.Whose(), j.Reason),
		Cures: []Cure{advise("wait until other jobs of " + l.Whose() + " are over")},
	}
	for i := range f.Limits {
		c.Details = append(c.Details, fmt.Sprintf("%s=%d of %s.", f.Limits[i].What(), f.Limits[i].Most, f.Limits[i].Whose()))
	}
	if key != "" {
		set := append(append([]string{"sacctmgr", "-i", "modify"}, l.Where()...), "set", key+"=-1")
		c.Cures = append(c.Cures, doSlurm("or lift the limit, with -1, or raise it, with another number", set...))
	}
	return c
}

// notAllowed is an account or a QOS that may not use the partition, or is none.
func (f *Facts) notAllowed() Cause {
	j := f.Job
	c := Cause{Kind: "not allowed", Sure: Certain}
	account := strings.Contains(j.Reason, "Account")
	switch {
	case j.Reason == "InvalidAccount":
		c.Text = fmt.Sprintf("%s may not use the account %q, or there is none.", j.User, j.Account)
		c.Cures = []Cure{doSlurm("add the user to it", "sacctmgr", "-i", "add", "user", j.User, "account="+j.Account)}
	case j.Reason == "InvalidQOS":
		c.Text = fmt.Sprintf("%s may not use the QOS %q, or there is none.", j.User, j.QOS)
		c.Cures = []Cure{doSlurm("allow it", "sacctmgr", "-i", "modify", "user", j.User, "set", "qos+="+j.QOS)}
	case account:
		c.Text = fmt.Sprintf("The partition %s does not take the account %q.", j.Partition, j.Account)
	default:
		c.Text = fmt.Sprintf("The partition %s does not take the QOS %q.", j.Partition, j.QOS)
	}
	for i := range f.Partitions {
		p := &f.Partitions[i]
		lists := p.QOS
		if account {
			lists = p.Accounts
		}
		if lists.Allowed != "" {
			c.Details = append(c.Details, fmt.Sprintf("The partition %s takes %s.", p.Name, lists.Allowed))
		}
		if lists.Deny != "" {
			c.Details = append(c.Details, fmt.Sprintf("The partition %s denies %s.", p.Name, lists.Deny))
		}
	}
	return c
}

// reservation is that of a job that has asked for one.
func (f *Facts) reservation() Cause {
	j := f.Job
	c := Cause{Kind: "reservation", Sure: Certain, Text: fmt.Sprintf("The job waits for the reservation %s.", j.Reservation)}
	found := false
	for i := range f.Reservations {
		r := &f.Reservations[i]
		if r.Name != j.Reservation {
			continue
		}
		found = true
		if r.Start.Time().After(f.Now) {
			c.Text = fmt.Sprintf("The reservation %s begins at %s (in %s).", r.Name, at(r.Start.Time()), in(r.Start.Time().Sub(f.Now)))
			c.Cures = append(c.Cures, doSlurm("let the reservation begin now", "scontrol", "update", "reservationname="+r.Name, "starttime=now"))
		}
		c.Details = append(c.Details, fmt.Sprintf("It has %s until %s.", r.Nodes, at(r.End.Time())))
	}
	if !found {
		c.Text = fmt.Sprintf("There is no reservation %s any more.", j.Reservation)
	}
	c.Cures = append(c.Cures, doSlurm("or let the job run without it", "scontrol", "update", "jobid="+j.Whole(), "reservationname="))
	return c
}

// license is what the job wants more of than is free.
func (f *Facts) license() Cause {
	j := f.Job
	c := Cause{Kind: "license", Sure: Certain, Text: "The licenses that the job wants are not free: " + j.Licenses + "."}
	for _, l := range f.Licenses {
		if strings.Contains(j.Licenses, l.Name) {
			c.Details = append(c.Details, fmt.Sprintf("%s: %d of %d are used, %d are reserved.", l.Name, l.Used, l.Total, l.Reserved))
		}
	}
	c.Cures = []Cure{
		advise("wait until they are free, or raise Licenses in slurm.conf"),
		doSlurm("or let it run without them", "scontrol", "update", "jobid="+j.Whole(), "licenses="),
	}
	return c
}

func (f *Facts) partitionDown() (causes []Cause) {
	j := f.Job
	for i := range f.Partitions {
		p := &f.Partitions[i]
		if p.Up() {
			continue
		}
		causes = append(causes, Cause{
			Kind: "partition down", Sure: Certain,
			Text:    fmt.Sprintf("The partition %s is %s, so none of its jobs begins.", p.Name, strings.Join(p.State.State, "+")),
			Details: []string{"An administrator has set that, or slurm.conf has it (State=)."},
			Cures:   []Cure{doSlurm("let its jobs begin", "scontrol", "update", "partitionname="+p.Name, "state=up")},
		})
	}
	if len(causes) == 0 {
		causes = []Cause{{Kind: "partition down", Sure: Likely, Text: fmt.Sprintf("The partition %s was down when slurmctld has looked at the job last.", j.Partition)}}
	}
	return causes
}

func (f *Facts) timeLimit() Cause {
	j := f.Job
	c := Cause{Kind: "time limit", Sure: Certain, Text: fmt.Sprintf("The job wants %s, and the partition allows less.", minutes(j.Limit))}
	for i := range f.Partitions {
		p := &f.Partitions[i]
		c.Text = fmt.Sprintf("The job wants %s, and the partition %s allows %s.", minutes(j.Limit), p.Name, minutes(p.Most.Minutes))
		if p.Most.Minutes.Is() {
			c.Cures = append(c.Cures, doSlurm("give the job that", "scontrol", "update", "jobid="+j.Whole(), fmt.Sprintf("timelimit=%d", p.Most.Minutes.Number)))
		}
	}
	c.Cures = append(c.Cures, advise("or raise MaxTime of the partition in slurm.conf"))
	return c
}

// nodeLimit: the job wants more nodes than the partition has or gives.
func (f *Facts) nodeLimit() (causes []Cause) {
	j := f.Job
	for i := range f.Partitions {
		p := &f.Partitions[i]
		switch want := j.NodeCount.Number; {
		case p.Most.Count.Is() && p.Most.Count.Number < want:
			causes = append(causes, Cause{
				Kind: "node limit", Sure: Certain,
				Text:  fmt.Sprintf("The job wants %d nodes, and the partition %s gives a job %d at most.", want, p.Name, p.Most.Count.Number),
				Cures: []Cure{f.fewer(p.Most.Count.Number), advise("or raise MaxNodes of the partition in slurm.conf")},
			})
		case p.Nodes.Total < want:
			causes = append(causes, f.tooFew(p, want))
		}
	}
	return slicesOr(causes, func() []Cause { return f.resources(Likely) })
}

func (f *Facts) tooFew(p *slurm.Partition, want int64) Cause {
	return Cause{
		Kind: "too few nodes", Sure: Certain,
		Text:  fmt.Sprintf("The job wants %d nodes, and the partition %s has %d.", want, p.Name, p.Nodes.Total),
		Cures: []Cure{f.fewer(p.Nodes.Total), advise("or make more nodes: the replicas of a node set, or the max of an elastic one (docs/run/node-sets.md)")},
	}
}

// fewer changes the tasks and the CPUs, too: slurmctld refuses a change after which the job does not fit either.
func (f *Facts) fewer(most int64) Cure {
	j := f.Job
	share := func(of slurm.Number) int64 { return max(most, of.Number*most/max(1, j.NodeCount.Number)) }
	args := []string{"scontrol", "update", "jobid=" + j.Whole(), fmt.Sprintf("numnodes=%d", most), fmt.Sprintf("numcpus=%d", share(j.CPUs))}
	if j.TaskCount.Is() {
		args = append(args, fmt.Sprintf("numtasks=%d", share(j.TaskCount)))
	}
	return doSlurm("let it take fewer, with as much on each", args...)
}
