package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
)

// podCauses is what Kubernetes says of a pod that does not serve.
func (f *Facts) podCauses(p *Pod) []Cause {
	m := f.Machines[p.Machine]
	switch {
	case p.Reason == "Evicted" || p.Phase == "Failed":
		return []Cause{{
			Kind: "evicted", Sure: Certain, Text: fmt.Sprintf("The pod has ended: %s: %s", cmp.Or(p.Reason, "Failed"), cmp.Or(p.Message, "Kubernetes says no more.")),
			Cures: append(evictionCures(p.Message), do("have the next pod made, if none comes by itself", "kubectl", "delete", "pod", p.Name)),
		}}
	case m != nil && m.lost():
		c := Cause{Kind: "machine", Sure: Certain, Text: "The pod's machine is not well.", Details: f.machineSays(p.Machine), Cures: f.machineCures(p.Machine)}
		if !p.Deleting.IsZero() {
			c.Text = "The pod's machine is not well, and the pod's deletion waits for it."
		}
		return []Cause{c}
	case !p.Deleting.IsZero():
		return []Cause{f.deleting(p)}
	case p.Unscheduled != "":
		return []Cause{unscheduled(p)}
	case p.Waits != "":
		return []Cause{f.waits(p)}
	}
	var causes []Cause
	if p.LastEnd == "OOMKilled" && (!p.Ready || f.Now.Sub(p.EndedAt) < time.Hour) {
		causes = append(causes, Cause{
			Kind: "out of memory", Sure: sureIf(!p.Ready), Text: fmt.Sprintf("The kernel has ended the pod's container at %s, because it had no memory left (OOMKilled, %d restarts).", at(p.EndedAt), p.Restarts),
			Cures: []Cure{advise("give the node set more memory (resources.limits.memory), or have cgroups limit each job (docs/reference/cgroups.md)")},
		})
	}
	causes = append(causes, f.evictedBefore(p)...)
	if !p.Ready && p.Phase == "Running" && !slices.ContainsFunc(causes, func(c Cause) bool { return c.Sure == Certain }) {
		causes = append(causes, f.notReady(p))
	}
	if p.Phase == "Pending" && len(causes) == 0 {
		c := Cause{Kind: "starting", Sure: Likely, Text: "The pod starts."}
		for _, e := range p.Events {
			c.Details = append(c.Details, e.Reason+": "+e.Message)
		}
		causes = append(causes, c)
	}
	return causes
}

// evictionCures say how the next pod fares better than one that the kubelet has evicted.
func evictionCures(message string) (cures []Cure) {
	for _, one := range []struct{ says, cure string }{
		{"local storage", "give the node set more disk (resources.limits.ephemeral-storage), or have its jobs leave less on it"},
		{"ephemeral-storage", "give the node set more disk (resources.requests.ephemeral-storage), or have its jobs leave less on it"},
		{"memory", "ask for as much memory as the pod may use: resources.requests.memory of the node set"},
	} {
		if strings.Contains(message, one.says) && len(cures) == 0 {
			cures = append(cures, advise(one.cure))
		}
	}
	return cures
}

// evictedBefore tells of an earlier pod of the name, whose jobs were lost with it, or of this one on its way down.
func (f *Facts) evictedBefore(p *Pod) (causes []Cause) {
	for _, e := range p.Events {
		if e.Reason == "Evicted" && f.Now.Sub(e.Last) < time.Hour && len(causes) == 0 {
			c := Cause{Kind: "evicted", Sure: Possible, Cures: evictionCures(e.Message)}
			c.Text = fmt.Sprintf("The kubelet has evicted an earlier pod of the name at %s: %s", at(e.Last), e.Message)
			if f.Node != nil && strings.HasPrefix(f.Node.Reason, reasons.Terminating) {
				c.Sure, c.Text = Certain, fmt.Sprintf("The kubelet evicts the pod since %s: %s", at(e.Last), e.Message)
			}
			causes = append(causes, c)
		}
	}
	return causes
}

func sureIf(is bool) Certainty {
	if is {
		return Certain
	}
	return Possible
}

func (f *Facts) deleting(p *Pod) Cause {
	waits, what := ", and waits for its jobs", "see the jobs that it waits for"
	switch p.Role {
	case "login":
		waits, what = ", and waits for its users' sessions", "see the sessions that it waits for"
	case "slurmctld", "slurmdbd", "slurmrestd":
		waits, what = ", and "+p.Role+" ends in order", "see what it waits for"
	}
	c := Cause{
		Kind: "deleted", Sure: Certain,
		Text:    fmt.Sprintf("The pod is being deleted since %s%s. Kubernetes ends it at %s.", at(p.Deleting), waits, at(p.Deleting.Add(time.Duration(p.Grace)*time.Second))),
		Details: f.machineSays(p.Machine),
		Cures:   []Cure{do(what, "kubectl", "exec", p.Name, "--", "slurmlet", "status")},
	}
	if p.Role == "slurmd" || p.Role == "login" {
		c.Cures = append(c.Cures, do("have it end sooner", "kubectl", "exec", p.Name, "--", "slurmlet", "deadline", "60s"))
	}
	if f.Agent != nil && f.Agent.Reason != "" {
		c.Details = append(c.Details, "Its agent says: "+f.Agent.Reason)
	}
	return c
}

// unscheduled reads the scheduler's message.
func unscheduled(p *Pod) Cause {
	c := Cause{Kind: "unschedulable", Sure: Certain, Text: "Kubernetes finds no machine for the pod: " + p.Unscheduled}
	for _, one := range []struct{ says, cure string }{
		{"Insufficient ", "free or add a machine of that size, or ask for less: resources of the node set"},
		{"node affinity/selector", "label a machine as the node set's nodeSelector wants, or change the nodeSelector"},
		{"untolerated taint", "take the taint from a machine (kubectl taint node MACHINE KEY-), or let the node set tolerate it (tolerations)"},
		{"were unschedulable", "uncordon a machine: kubectl get nodes shows which are cordoned"},
		{"PersistentVolumeClaim", "see why its volume is not there: kubectl get pvc"},
		{"volume node affinity", "the pod's volume is on another machine: see kubectl describe pv"},
		{"gate", "the webhook of slurmlet's controller has not come to it (docs/install/injection.md)"},
		{"anti-affinity", "add a machine: no two of these pods may be on one"},
	} {
		if strings.Contains(p.Unscheduled, one.says) {
			c.Cures = append(c.Cures, advise(one.cure))
		}
	}
	c.Cures = append(c.Cures, do("see the machines", "kubectl", "get", "nodes"), do("see what the pod asks for", "kubectl", "describe", "pod", p.Name))
	return c
}

// waits is a container that Kubernetes cannot start.
func (f *Facts) waits(p *Pod) Cause {
	c := Cause{Kind: "container", Sure: Certain, Text: fmt.Sprintf("The pod's container does not start: %s: %s", p.Waits, p.WaitsFor)}
	for _, e := range p.Events {
		c.Details = append(c.Details, e.Reason+": "+e.Message)
	}
	switch p.Waits {
	case "ErrImageNeverPull":
		c.Kind, c.Text, c.Details = "image", fmt.Sprintf("The image %s is not on the machine, and image.pullPolicy is Never.", p.Image), nil
		c.Cures = []Cure{advise("bring the image to the machines, correct its name, or let it be pulled (image.pullPolicy)")}
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "RegistryUnavailable":
		c.Kind, c.Text = "image", fmt.Sprintf("The image %s cannot be pulled (%s): %s", p.Image, p.Waits, p.WaitsFor)
		c.Cures = []Cure{advise("correct image.registry, image.tag or the node set's image, or give the pods the registry's password (docs/install/README.md)")}
	case "CrashLoopBackOff":
		c.Kind, c.Text = "crash", fmt.Sprintf("The pod's container ends again and again: %s, exit status %d, %d restarts.", cmp.Or(p.LastEnd, "Error"), p.LastStatus, p.Restarts)
		if p.LastEnd == "OOMKilled" {
			c.Kind = "out of memory"
			c.Cures = append(c.Cures, advise("give the node set more memory: resources.limits.memory"))
		}
		c.Details = slicesOr(p.LastWords, func() []string { return c.Details })
		c.Cures = append(c.Cures, do("read why", "kubectl", "slurm", "logs", p.Name, "--previous"), advise("docs/reference/status.md has what the exit status means"))
	case "CreateContainerConfigError", "ContainerCreating", "PodInitializing":
		c.Sure = Likely
		c.Cures = []Cure{do("see what is missing, mostly a Secret, a ConfigMap or a volume", "kubectl", "describe", "pod", p.Name)}
	default:
		c.Cures = []Cure{do("see more", "kubectl", "describe", "pod", p.Name)}
	}
	return c
}

// notReady is a pod whose container runs, and whose daemon does not do its work yet.
func (f *Facts) notReady(p *Pod) Cause {
	c := Cause{Kind: "not ready", Sure: Likely, Text: "The pod runs and is not Ready."}
	if f.Agent != nil && f.Agent.Reason != "" {
		c.Sure, c.Text = Certain, fmt.Sprintf("The pod runs and is not Ready: %s: %s.", f.Agent.State, f.Agent.Reason)
		for _, one := range notReadyReasons {
			if strings.Contains(f.Agent.Reason, one.says) {
				c.Cures = append(c.Cures, one.cure)
			}
		}
	}
	if len(c.Cures) == 0 {
		c.Cures = []Cure{do("see what it waits for", "kubectl", "exec", p.Name, "--", "slurmlet", "status")}
	}
	return c
}

// notReadyReasons are those of docs/run/waiting.md that have something to do.
var notReadyReasons = []struct {
	says string
	cure Cure
}{
	{"cannot reach slurmctld", do("see how slurmctld stands", "kubectl", "slurm", "status")},
	{"has not seen this slurmd yet", advise("wait a few seconds; then see whether slurmctld's pod reaches port 6818")},
	{"is MaxNodeCount reached?", advise("raise MaxNodeCount (slurm.conf.MaxNodeCount of charts/slurm)")},
	{"the record is of another size", advise("nothing: the agent drains the node, waits for its jobs, and registers anew")},
	{"somebody else has drained the node", advise("resume the node when you agree: kubectl slurm resume NODE")},
	{"slurmctld has refused what slurmd registered", advise("slurmctld says why, mostly of GPUs (docs/reference/node-record.md)")},
	{"has no record of this elastic node", advise("see the sets in the status of slurmctld's agent: kubectl slurm status")},
	{"another agent has StateSaveLocation", advise("wait for the earlier slurmctld's pod, or delete it")},
	{"converts its database or waits for it", advise("wait: slurmdbd converts its database (docs/run/accounting.md)")},
}

// noPod says why there is no pod of a node.
func (f *Facts) noPod(text string) []Cause {
	c := Cause{Kind: "no pod", Sure: Certain, Text: text}
	for _, e := range f.NotMade {
		c.Kind = "not made"
		c.Details = append(c.Details, fmt.Sprintf("Kubernetes refuses pods of %s: %s", e.Object, e.Message))
		if strings.Contains(e.Message, "exceeded quota") && len(c.Cures) == 0 {
			c.Cures = append(c.Cures, do("see the quota, and raise it", "kubectl", "describe", "resourcequota"))
		}
	}
	if f.Node != nil {
		c.Cures = append(c.Cures, advise("bring its pod back: the replicas of its node set, or the machine of a DaemonSet's pod"),
			doSlurm("or delete the record, if the node does not come back", "scontrol", "delete", "nodename="+f.Name))
	}
	return []Cause{c}
}

// configuring is a job that has its nodes and waits until they are up.
func (f *Facts) configuring() []Cause {
	causes := f.elastic()
	if len(causes) > 0 && causes[0].Sure == Certain {
		return causes
	}
	for _, name := range (&slurm.Group{Nodes: f.Job.Nodes}).Names() {
		if pod := f.Pods[name]; pod != nil && !pod.Ready {
			for _, c := range f.podCauses(pod) {
				c.Text = name + ": " + c.Text
				causes = append(causes, c)
			}
		}
		if len(causes) >= 5 {
			break
		}
	}
	if slices.ContainsFunc(causes, func(c Cause) bool { return c.Sure == Certain }) {
		return causes
	}
	return append(causes, Cause{
		Kind: "configuring", Sure: Likely, Text: fmt.Sprintf("The job has its nodes (%s), and waits until they are up, or until the prolog is over.", f.Job.Nodes),
		Cures: []Cure{advise("wait: pods of elastic sets take as long as their image and their machine do")},
	})
}

// refusedEdit: the configuration that somebody has written is not the one that is live.
func (f *Facts) refusedEdit() []Cause {
	if f.Controller == nil || f.Controller.Conf == nil || f.Controller.Conf.Refused == nil {
		return nil
	}
	r := f.Controller.Conf.Refused
	return []Cause{{
		Kind: "refused edit", Sure: Possible,
		Text:    fmt.Sprintf("An edit of slurm.conf is refused since %s, so the cluster runs with the one before. If it was to bring what this waits for, mend the edit.", at(r.Since)),
		Details: r.Why,
		Cures:   []Cure{advise("correct the values and run helm upgrade, or correct the ConfigMap (docs/run/edit.md)")},
	}}
}
