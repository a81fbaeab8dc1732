package node

// These actions are about the node's record and its jobs.
type (
	// AskNode asks slurmctld for the node record.
	AskNode struct {
		Number int
		Need   Need
	}
	// AskJobs asks for the node record, and for the jobs that hold it.
	AskJobs struct {
		Number int
		Need   Need
	}
	// Change changes the record or its jobs. Done answers it.
	Change struct {
		Number int
		Verb   Verb
		// Reason is that of a drain, of DOWN, and of PowerOffNode. PowerDownNode keeps an earlier one where
		// it has none.
		Reason string
		// Fields are those of an update, in scontrol's words.
		Fields []string
		// Last: RequeueJobs requeues jobs, too, of whose end slurmstepd could still report.
		Last bool
	}
	// CompareCluster compares the cluster's configuration with the pod.
	CompareCluster struct{}
	// FindLostJobs looks for jobs that slurmctld counts as running here, and that are not.
	FindLostJobs struct{ Number int }
	// CountSteps counts those that run here; slurmctld does not hear of it.
	CountSteps struct{ Number int }
	SignalJobs struct{}
	// KillRequeued kills what runs here of jobs that slurmctld has ended.
	KillRequeued struct{}
	// EndSteps asks the steps' processes to end, or kills them: their jobs are
	// over, or the time is.
	EndSteps struct{ Kill bool }
	// HoldSteps keeps the steps' slurmstepd from reporting ends from now on.
	HoldSteps struct{}
	// KillSteps ends steps with their slurmstepd: nobody waits for their word.
	KillSteps struct{}
)

// Need is what an answer about the record must be sure to have, although slurmctld has to send
// all of its nodes for it. An answer that costs one node may leave it out.
type Need struct {
	// Start asks which slurmd has registered.
	Start bool
	// Absence asks whether there is no record.
	Absence bool
	// Topology asks where the node stands in the cluster's network.
	Topology bool
	// Jobs asks whether jobs hold the node, and which.
	Jobs bool
}

// Verb says which change of the record, or of the node's jobs, a Change makes.
type Verb int

// The verbs.
const (
	// DeleteNode deletes the record, unless a job or a reservation names the node: then it stays DOWN (slurm.ErrKept).
	DeleteNode Verb = iota
	// RenewNode deletes a record of another size. One that is named is made anew at once, drained, so that there is no moment in
	// which a job names what has no record (slurm.ErrKept).
	RenewNode
	// DeleteAgain deletes a record that slurmctld has deleted, if there is one again.
	DeleteAgain
	DrainNode
	ResumeNode
	UpdateNode
	// FailNode sets the node DOWN: what is left on it ends as NODE_FAIL.
	FailNode
	// PowerDownNode drains an elastic node, and has slurmctld suspend it after its jobs. PowerOffNode takes the
	// jobs off it at once: they are requeued, or end as NODE_FAIL.
	PowerDownNode
	PowerOffNode
	// RequeueJobs requeues the jobs that may be, and logs those that may not.
	RequeueJobs
	// EndStaleJobs ends the jobs that have died with an earlier container.
	EndStaleJobs
	// MendLaunch releases the jobs whose second launch slurmd has refused, and lifts slurmctld's drain for that.
	MendLaunch
	// StartSackd starts a sackd, from which scontrol has its credentials then.
	StartSackd

	verbCount = iota
)
