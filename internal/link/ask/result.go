package ask

import (
	"errors"
	"fmt"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Result is what slurmctld has said of one node, or that it was not asked.
type Result struct {
	Word Word
	Text string
}

// Word is the beginning of an answer.
type Word string

const (
	// Done: slurmctld has changed the record, or there is none to delete.
	Done Word = "done"
	// Gone: slurmctld has deleted the record, and has had none when it was asked once more.
	Gone Word = "gone"
	// Kept: the record is DOWN and drained, because a job or a reservation names the node.
	Kept Word = "kept"
	// Busy: jobs or a reservation keep slurmctld from deleting the record.
	Busy Word = "busy"
	// Refused: slurmctld has said no, for another reason.
	Refused Word = "refused"
	// Silent: slurmctld has not answered, which is neither yes nor no.
	Silent Word = "silent"
	// Unasked: slurmctld was not asked. The node's agent asks it.
	Unasked Word = "unasked"
)

// mostText bounds what is told of an error, in bytes.
const mostText = 2 << 10

// Said is a Result with a text.
func Said(w Word, text string) Result { return Result{w, text} }

// String is the answer as it is sent.
func (r Result) String() string {
	return strings.TrimSpace(string(r.Word) + " " + r.Text[:min(len(r.Text), mostText)])
}

func parseResult(text string) (Result, error) {
	first, rest, _ := strings.Cut(text, " ")
	switch r := (Result{Word(first), rest}); r.Word {
	case Done, Gone, Kept, Busy, Refused, Silent, Unasked:
		return r, nil
	}
	return Result{}, errors.New("that is no answer to a change")
}

// Err is what a direct question would have returned.
func (r Result) Err(c Change) error {
	switch r.Word {
	case Done:
		return nil
	case Gone:
		return fmt.Errorf("the record of node %s is deleted: %w", c.Node, slurm.ErrNoNode)
	case Kept:
		return fmt.Errorf("%w: %s", slurm.ErrKept, r.Text)
	case Busy:
		return fmt.Errorf("cannot delete the record of node %s: %w", c.Node, slurm.ErrBusy)
	case Silent:
		return fmt.Errorf("%w: %s", slurm.ErrUnreachable, r.Text)
	}
	return errors.New(r.Text)
}
