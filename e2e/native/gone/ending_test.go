//go:build e2e

package gone

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	// slowEpilog lasts as long as there is a file of the node's name.
	slowEpilog = "Epilog=/srv/epilog\n"
	epilog     = "#!/bin/sh\nwhile test -e /srv/slow-$SLURMD_NODENAME; do sleep 0.1; done\n"
)

// noMessages: slurmctld sends nodes nothing, and nothing waits to be sent.
var noMessages = regexp.MustCompile(`Agent count:\s+0\n(?s:.*)Agent queue size:\s+0\n`)

// endsElsewhere: a job of two nodes is requeued, and its epilog lasts on one of them. The other's agent begins anew, so it does
// not know that the job was there, and its pod is deleted. slurmctld is configured anew.
func (w *namedWorld) endsElsewhere() error {
	first, second := replacement(w.hole), replacement(w.direct)
	slow := filepath.Join(w.Root, "srv/slow-"+second.Name)
	if err := os.WriteFile(slow, nil, 0o644); err != nil {
		return err
	}
	if err := errors.Join(w.up(first), w.up(second)); err != nil {
		return err
	}
	// The job names no node.
	if _, err := w.slurm("scontrol", "update", "nodename=n[2-3,5]", "state=drain", "reason=apart"); err != nil {
		return err
	}
	id, err := w.slurm("sbatch", "--parsable", "--requeue", "--mem=10", "--output=/dev/null", "--wrap=sleep 600", "-N2")
	if err != nil {
		return err
	}
	if err := w.runsOn(id, "n[1,6]"); err != nil {
		return err
	}
	if _, err := w.slurm("scontrol", "requeuehold", id); err != nil {
		return err
	}
	state := func() string {
		out, err := w.slurm("squeue", "--noheader", "--jobs="+id, "--format=%t %N")
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(out)
	}
	if err := w.until("the job does not end on "+first.Name, func() bool { return state() == "CG n6" }); err != nil {
		return err
	}
	if err := w.powerOff(first); err != nil {
		return err
	}
	first = replacement(first)
	if err := w.up(first); err != nil {
		return err
	}
	// The answer to a message that is under way would take the node out of DOWN again.
	var sent string
	if err := w.until("slurmctld has messages under way", func() bool {
		sent, err = w.slurm("sdiag")
		return err == nil && noMessages.MatchString(sent)
	}); err != nil {
		return fmt.Errorf("%w: %s", err, sent)
	}
	if err := w.stays(first); err != nil {
		return err
	}
	if record := w.record(first); !strings.Contains(record, "job "+id+" ends on other nodes") {
		return fmt.Errorf("the record of %s is %q", first.Name, record)
	}
	if _, err := w.slurm("scontrol", "reconfigure"); err != nil {
		return err
	}
	if err := w.until("slurmctld does not answer", func() bool { _, err := w.slurm("scontrol", "ping"); return err == nil }); err != nil {
		return err
	}
	if now := state(); now != "CG n6" {
		return fmt.Errorf("job %s is %q while its epilog lasts", id, now)
	}
	if err := os.Remove(slow); err != nil {
		return err
	}
	if err := w.until("job "+id+" does not end", func() bool { return state() == "PD" }); err != nil {
		return fmt.Errorf("%w: it is %q", err, state())
	}
	return w.until("the record stays after the job's end", func() bool { return w.record(first) == "" })
}
