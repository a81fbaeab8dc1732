package savedstate

// Ids says which ids slurmctld gives: from First on, below Most, and then again from First on (slurm.conf(5), FirstJobId
// and MaxJobId).
type Ids struct{ First, Most uint32 }

// DefaultMost is Slurm's MaxJobId.
const DefaultMost = 0x03ff0000

// orDefault fills in what slurm.conf does not set.
func (i Ids) orDefault() Ids {
	i.First = max(i.First, 1)
	if i.Most == 0 {
		i.Most = DefaultMost
	}
	return i
}

// since is how many ids after another one an id was given. Ids that were given before it, in the other half of all
// ids, are none: old jobs may have high ids after the ids have begun anew.
func (i Ids) since(last, id uint32) (n uint32, after bool) {
	span := i.Most - i.First
	if id < i.First || id >= i.Most || span == 0 {
		return 0, false
	}
	if last < i.First || last >= i.Most {
		return id - i.First + 1, true // none was given before
	}
	n = (id + span - last) % span
	return n, n > 0 && n <= span/2
}

const (
	// leastMargin is how many ids are left out after the last one that is known. srun, salloc and tasks of an array
	// leave no directory, and where slurmctld logs too little, or its agent has ended with it, nothing has those that
	// came after the last batch job: within the five seconds between two saves.
	leastMargin = 1000
	// mostMargin bounds the margin where many ids were given since the last save.
	mostMargin = 20000
	// mostUnsaved is how many ids slurmctld gives at most between two saves. Those that are further ahead are of jobs that
	// are old, or of a line of its log that is not believed.
	mostUnsaved = 1000000
	// growth is how many times the ids that are known to have been given since the last save may have been given once
	// more without a trace.
	growth = 2
)

// first is the id from which on slurmctld may give ids after a crash. saved is the last id of its last save, 0 where that
// is not known. before is what first was after an earlier crash that saved does not say yet, 0 for none. given are ids
// that were given, and such as nobody knows when. ok is false where ids are about to begin anew, which FirstJobId cannot
// say.
func (i Ids) first(saved, before uint32, given []uint32) (first uint32, ok bool) {
	highest, most := saved, uint32(0)
	for _, id := range given {
		n, after := i.since(saved, id)
		near := n <= mostUnsaved && id > saved || n <= mostMargin
		if after && n > most && (near || saved < i.First) {
			highest, most = id, n
		}
	}
	margin := uint32(leastMargin)
	if saved >= i.First && most > leastMargin/growth {
		margin = min(growth*most, mostMargin)
	}
	if n, after := i.since(highest, before); after && n <= mostUnsaved {
		highest = before
	}
	next := max(highest, i.First) + margin
	return next, next < i.Most && highest >= saved
}
