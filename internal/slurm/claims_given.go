package slurm

import (
	"context"
	"maps"
	"regexp"
	"sync"
)

// mostCompleting is up to how many jobs that are COMPLETING are asked for one by one; of more, all jobs are asked for.
const mostCompleting = 32

// addGiven asks which nodes the jobs were started on that are COMPLETING. slurmctld shows of them only the nodes that they still
// end on. It saves their whole list by name: without one of the records it counts a node too few when it is configured anew,
// and the job stays COMPLETING for ever (24.11.5, 26.05.5).
func (s Scontrol) addGiven(ctx context.Context, all []Claim) error {
	var ending []*Claim
	for i := range all {
		if c := &all[i]; c.Completing {
			ending = append(ending, c)
		}
	}
	given := map[string]string{}
	ask := func(args ...string) error {
		out, err := s.run(ctx, append([]string{"--details", "show", "job"}, args...)...)
		if err != nil && !unknown(err) { // it has ended meanwhile
			return err
		}
		maps.Copy(given, parseGiven(out))
		return nil
	}
	if len(ending) > mostCompleting {
		if err := ask(); err != nil {
			return err
		}
	}
	for _, c := range ending {
		if len(ending) <= mostCompleting {
			if err := ask(c.ID); err != nil {
				return err
			}
		}
		c.Given = given[c.ID]
	}
	return nil
}

// givenNodes finds jobs, and the nodes of each with the same cores, at the beginning of a line.
var givenNodes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(?:JobId=(\d+) |     Nodes=(\S+) CPU_IDs=)`)
})

// parseGiven reads "scontrol --details show job": the host list of each job by its number. A list may name a node twice.
func parseGiven(out []byte) map[string]string {
	given, job := map[string]string{}, ""
	for _, found := range givenNodes().FindAllSubmatch(out, -1) {
		switch {
		case found[1] != nil:
			job = string(found[1])
		case given[job] != "":
			given[job] += "," + string(found[2])
		default:
			given[job] = string(found[2])
		}
	}
	return given
}
