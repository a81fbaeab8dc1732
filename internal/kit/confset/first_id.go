package confset

import (
	"bytes"
	"fmt"
	"regexp"
	"sync"
)

// FirstJobID is the text that the agent of slurmctld adds at the end of slurm.conf after a crash: slurmctld may have
// forgotten jobs, and gives their ids to no others.
func FirstJobID(id uint32) string {
	return fmt.Sprintf(
		"\n# slurmlet wrote FirstJobId, because slurmctld has not ended in order and may have forgotten lower ids.\nFirstJobId=%d\n", id)
}

// firstJobID is compiled where slurm.conf has such a text, which is after a crash alone.
var firstJobID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\n# slurmlet wrote FirstJobId, [^\n]*\nFirstJobId=[0-9]+\n`)
})

// WithoutFirstJobID is a slurm.conf without that text, which matters to slurmctld alone: a node with it and a node
// without it have the same configuration.
func WithoutFirstJobID(text []byte) []byte {
	if !bytes.Contains(text, []byte("\n# slurmlet wrote FirstJobId, ")) {
		return text
	}
	return firstJobID().ReplaceAll(text, nil)
}
