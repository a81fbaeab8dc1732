package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
)

// Judge says why what the facts are about waits.
func Judge(f Facts) Answer {
	var a Answer
	if f.Job != nil {
		a = f.judgeJob()
	} else {
		a = f.judgeNode()
	}
	a.Causes = append(a.Causes, f.refusedEdit()...)
	slices.SortStableFunc(a.Causes, func(x, y Cause) int { return cmp.Compare(rank(x.Sure), rank(y.Sure)) })
	a.Unknown = f.Unknown
	if !a.Fine && (len(a.Causes) == 0 || a.Causes[0].Sure != Certain) {
		a.Facts = f.shown()
	}
	return a
}

func rank(c Certainty) int { return slices.Index([]Certainty{Certain, Likely, Possible}, c) }

// judgeJob says why a job waits, or what has become of it.
func (f *Facts) judgeJob() Answer {
	j := f.Job
	a := Answer{About: f.aboutJob()}
	switch {
	case f.Forgotten && !j.End.Is():
		a.Causes = []Cause{f.runaway()}
	case j.Is("PENDING"):
		a.Causes = f.pending()
	case j.Is("CONFIGURING"):
		a.Causes = f.configuring()
	case j.Is("COMPLETING"):
		a.Causes = []Cause{{
			Kind: "completing", Sure: Certain, Text: "The job is over, and Slurm cleans up on its nodes: the epilog, or a process that does not end.",
			Cures: []Cure{do("look at the first of its nodes", "kubectl", "slurm", "why", cmp.Or(j.BatchHost, firstName(j.Nodes)))},
		}}
	case j.Is("SUSPENDED"):
		a.Causes = []Cause{{
			Kind: "suspended", Sure: Certain, Text: "Somebody, or Slurm's preemption, has suspended the job.",
			Cures: []Cure{doSlurm("let it go on", "scontrol", "resume", j.Whole())},
		}}
	case j.Is("RUNNING"):
		a.Fine = true
	default:
		a.Causes, a.Fine = f.over()
	}
	return a
}

func (f *Facts) aboutJob() string {
	j := f.Job
	text := fmt.Sprintf("Job %s (%s) of %s in partition %s is %s", j.Label(), j.Name, j.User, j.Partition, strings.Join(j.State, "+"))
	switch {
	case j.Is("PENDING"):
		text += ": slurmctld says " + j.Reason
		if j.Description != "" && j.Description != j.Reason {
			text += " (" + j.Description + ")"
		}
	case j.Nodes != "":
		text += " on " + j.Nodes
	}
	if f.Forgotten {
		text += ". slurmctld has forgotten it, and accounting has it" + f.ran()
	}
	return text
}

// ran is when a job has run, as far as it has.
func (f *Facts) ran() (text string) {
	if start := f.Job.Start.Time(); !start.IsZero() {
		text = " from " + at(start)
	}
	if end := f.Job.End.Time(); !end.IsZero() {
		text += " until " + at(end)
	}
	return text
}

// runaway is a job whose end accounting was never told (sacctmgr(1), show RunawayJobs).
func (f *Facts) runaway() Cause {
	return Cause{
		Kind: "runaway", Sure: Certain, Text: "slurmctld does not know the job, and accounting has not heard of its end.",
		Cures: []Cure{
			doSlurm("see whether its end is on its way to slurmdbd (DBD Agent queue size)", "sdiag"),
			doSlurm("if not, end it in accounting, with all others of this kind", "sacctmgr", "-i", "show", "runawayjobs"),
		},
	}
}

// pending maps slurmctld's reason to what looks into it.
func (f *Facts) pending() []Cause {
	reason := f.Job.Reason
	switch reason {
	case "JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue":
		return []Cause{f.held()}
	case "BeginTime":
		if f.Job.Restarts > 0 { // perhaps because its nodes did not start
			return append(f.elastic(), f.beginTime())
		}
		return []Cause{f.beginTime()}
	case "Dependency", "DependencyNeverSatisfied":
		return []Cause{f.dependency()}
	case "Reservation", "ReservationDeleted":
		return []Cause{f.reservation()}
	case "Licenses":
		return []Cause{f.license()}
	case "PartitionDown", "PartitionInactive":
		return f.partitionDown()
	case "PartitionTimeLimit":
		return []Cause{f.timeLimit()}
	case "PartitionNodeLimit", "PartitionConfig":
		return f.nodeLimit()
	case "AccountNotAllowed", "QOSNotAllowed", "InvalidAccount", "InvalidQOS":
		return []Cause{f.notAllowed()}
	case "JobArrayTaskLimit":
		return []Cause{{
			Kind: "array", Sure: Certain, Text: "As many tasks of the array run as it allows at once.",
			Cures: []Cure{doSlurm("let 10 run at once", "scontrol", "update", "jobid="+f.arrayID(), "arraytaskthrottle=10")},
		}}
	case "Priority":
		return slices.Concat([]Cause{f.priority()}, f.resources(Possible))
	}
	if isLimit(reason) {
		return []Cause{f.limit()}
	}
	switch reason {
	case "Resources", "ReqNodeNotAvail", "BadConstraints", "NodeDown", "None", "":
		return slices.Concat(f.elastic(), f.resources(Certain))
	}
	return slices.Concat(f.elastic(), f.resources(Likely))
}

func (f *Facts) arrayID() string {
	if f.Job.ArrayID.Number != 0 {
		return fmt.Sprint(f.Job.ArrayID.Number)
	}
	return f.Job.Whole()
}

func (f *Facts) held() Cause {
	j := f.Job
	c := Cause{Kind: "held", Sure: Certain, Text: fmt.Sprintf("%s, or an administrator in that name, holds the job.", j.User)}
	if j.Reason == "JobHeldAdmin" {
		c.Text = "An administrator, or slurmctld, holds the job. Its user cannot release it."
	}
	switch {
	case j.Reason == "JobHoldMaxRequeue":
		c.Text = "slurmctld holds the job, because it was requeued too often (max_batch_requeue)."
	case strings.Contains(j.Description, "launch failed"):
		c.Text = "slurmctld holds the job, because its launch has failed: " + j.Description + "."
		c.Details = []string{"The prolog has failed, or slurmd could not start the batch script: the log of the node that it was on has the cause."}
	case f.Controller != nil && slices.Contains(f.Controller.Nobodys, fmt.Sprint(j.ID)):
		c.Text = "slurmctld holds the job, because it does not know its user."
		c.Cures = []Cure{advise("make the user known in slurmctld's pod")}
	}
	c.Cures = append(c.Cures, doSlurm("release it", "scontrol", "release", j.Whole()))
	return c
}

func (f *Facts) beginTime() Cause {
	j := f.Job
	begin := j.Eligible.Time()
	c := Cause{Kind: "begin time", Sure: Certain, Text: "The job must not begin yet."}
	if !begin.IsZero() {
		c.Text = fmt.Sprintf("The job must not begin before %s (in %s).", at(begin), in(begin.Sub(f.Now)))
	}
	c.Details = []string{"Its user has asked for that (--begin)."}
	if j.Restarts > 0 {
		c.Details = []string{fmt.Sprintf("slurmctld has requeued it %d times, and lets a requeued job wait some two minutes.", j.Restarts)}
	}
	c.Cures = []Cure{doSlurm("let it begin now", "scontrol", "update", "jobid="+j.Whole(), "starttime=now")}
	return c
}

func (f *Facts) dependency() Cause {
	j := f.Job
	never := j.Reason == "DependencyNeverSatisfied"
	c := Cause{Kind: "dependency", Sure: Certain, Text: "The job waits for other jobs: " + j.Dependency + "."}
	if never {
		c.Kind, c.Text = "dependency never satisfied", "The job depends on what will never be: "+j.Dependency+"."
	}
	for i := range f.Others {
		o := &f.Others[i]
		text := fmt.Sprintf("Job %s of %s is %s", o.Label(), o.User, strings.Join(o.State, "+"))
		if o.Is("PENDING") {
			text += " (" + o.Reason + ")"
			c.Cures = append(c.Cures, do("see why that waits", "kubectl", "slurm", "why", o.Whole()))
		}
		c.Details = append(c.Details, text+".")
	}
	c.Cures = append(c.Cures, doSlurm("let it begin without them", "scontrol", "update", "jobid="+j.Whole(), "dependency="))
	if never {
		c.Cures = append(c.Cures, doSlurm("or cancel it", "scancel", j.Whole()))
	}
	return c
}

func (f *Facts) priority() Cause {
	j := f.Job
	c := Cause{Kind: "priority", Sure: Certain, Text: "Other jobs of the partition have a higher priority."}
	var ahead []string
	more := 0
	for _, w := range f.Queue {
		if w.Job == j.Label() || w.Priority < j.Priority.Number {
			break
		}
		if w.Priority == 0 {
			continue
		}
		if len(ahead) < 5 {
			ahead = append(ahead, fmt.Sprintf("Job %s of %s is ahead, with priority %d (%s).", w.Job, w.User, w.Priority, w.Reason))
			continue
		}
		more++
	}
	c.Details = ahead
	if more > 0 {
		c.Details = append(c.Details, fmt.Sprintf("%d more are ahead.", more))
	}
	c.Details = append(c.Details, f.expected())
	if len(f.Queue) > 0 && f.Queue[0].Job != j.Label() {
		first, _, _ := strings.Cut(f.Queue[0].Job, "_[")
		c.Cures = append(c.Cures, do("see what the first of them waits for", "kubectl", "slurm", "why", first))
	}
	c.Cures = append(c.Cures, doSlurm("put it first", "scontrol", "update", "jobid="+j.Whole(), fmt.Sprintf("priority=%d", f.firstPriority()+1)))
	return c
}

// firstPriority is the highest of those that wait.
func (f *Facts) firstPriority() int64 {
	most := f.Job.Priority.Number
	for _, w := range f.Queue {
		most = max(most, w.Priority)
	}
	return most
}

// expected says when slurmctld means to start the job.
func (f *Facts) expected() string {
	if start := f.Job.Start.Time(); start.After(f.Now) {
		return fmt.Sprintf("slurmctld expects that it begins at %s (in %s).", at(start), in(start.Sub(f.Now)))
	}
	return "slurmctld has not worked out yet when it begins."
}

// over says what has become of a job that does not run any more.
func (f *Facts) over() (causes []Cause, fine bool) {
	j := f.Job
	c := Cause{Kind: "over", Sure: Certain}
	where := cmp.Or(j.BatchHost, firstName(j.Nodes))
	logs := do("read what it has written", "kubectl", "slurm", "logs", j.Whole())
	switch {
	case j.Is("COMPLETED"):
		return nil, true
	case j.Is("OUT_OF_MEMORY"):
		c.Text = fmt.Sprintf("The job had more memory than it asked for (%s), and the kernel has ended it.", memory(j))
		c.Cures = []Cure{advise("submit it with a larger --mem"), logs}
	case j.Is("TIMEOUT"):
		c.Text = fmt.Sprintf("The job has reached its time limit of %s.", minutes(j.Limit))
		c.Cures = []Cure{advise("submit it with a larger --time"), logs}
	case j.Is("NODE_FAIL", "BOOT_FAIL"):
		c.Text = "A node of the job was lost: " + j.Nodes + "."
		c.Cures = []Cure{do("see what has become of it", "kubectl", "slurm", "why", where)}
	case j.Is("CANCELLED"):
		c.Text = "Somebody has cancelled the job."
	case j.Is("PREEMPTED"):
		c.Text = "A job of a higher priority has taken its nodes."
	case j.Exit.Signal.ID.Is():
		c.Text = fmt.Sprintf("The job was ended by signal %d (%s).", j.Exit.Signal.ID.Number, j.Exit.Signal.Name)
		c.Cures = []Cure{logs}
	default:
		c.Text = fmt.Sprintf("The job has ended with exit status %d%s.", j.Exit.Code.Number, inParentheses(j.Reason))
		c.Cures = []Cure{logs}
	}
	return []Cause{c}, false
}

func inParentheses(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

func memory(j *slurm.Job) string {
	switch {
	case j.MemPerCPU.Is():
		return mib(j.MemPerCPU.Number) + " for each CPU"
	case j.Memory.Is():
		return mib(j.Memory.Number) + " on each node"
	}
	return "all of its node"
}

func mib(n int64) string {
	if n >= 1024 && n%1024 == 0 {
		return fmt.Sprintf("%d GiB", n/1024)
	}
	return fmt.Sprintf("%d MiB", n)
}

func minutes(n slurm.Number) string {
	switch {
	case n.Infinite:
		return "no end"
	case !n.Set:
		return "the partition's default"
	}
	return in(time.Duration(n.Number) * time.Minute)
}

func at(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// in is a duration for people, with two units at most.
func in(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return d.String()
}

func firstName(hosts string) string {
	names := (&slurm.Group{Nodes: hosts}).Names()
	if len(names) == 0 {
		return ""
	}
	return names[0]
}
