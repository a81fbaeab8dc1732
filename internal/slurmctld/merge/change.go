// Package merge makes one command of the changes that many nodes' agents ask for at the same time.
//
// When a thousand pods end together, each agent drains its node and deletes its record. Deleting a
// record rebuilds slurmctld's tables under its write locks, and takes 30 ms where there are 10,000
// records, whether one is deleted or all. slurmctld's agent therefore collects the changes for a
// moment, runs one scontrol for all, and tells each agent what slurmctld has said of its node
// (Merger). The agents ask it over internal/link/proof, and ask slurmctld themselves where it is away or
// refuses (Asker).
//
// The counts of allocated CPUs are a question of the same kind: slurmctld makes them for all nodes
// or for none, and slurmctld's agent has it make them at most once a second (Recount).
package merge

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Path is where slurmctld's agent takes changes.
const Path = "/change"

// Verb is what is to be changed.
type Verb string

// The verbs, in the words of the query.
const (
	// Delete deletes a record that no pending job and no reservation names, and whose pod is not made again. Another
	// one is drained and set DOWN, if no job holds it.
	Delete Verb = "delete"
	// Renew deletes a record, and makes one that is named anew with Conf.
	Renew Verb = "renew"
	Drain Verb = "drain"
	// Fail sets a node DOWN.
	Fail Verb = "fail"
	// PowerDown drains an elastic node, which slurmctld suspends when its jobs have ended. PowerOff
	// takes its jobs off before.
	PowerDown Verb = "power-down"
	PowerOff  Verb = "power-off"
	Resume    Verb = "resume"
	// Recount changes no record: slurmctld counts the allocated CPUs of all nodes anew.
	Recount Verb = "recount"
)

// Change is what a node's agent asks for its own node.
type Change struct {
	Verb Verb
	Node string
	// Reason is that of a drain, of DOWN and of PowerOff. PowerDown keeps that of an earlier drain where
	// it has none.
	Reason string
	// Conf is parameters of a NodeName line (slurm.conf(5)), separated by spaces, for a record that is made anew: by Renew,
	// and where a job has come to name the node while its record was deleted. Agents of before send none.
	Conf string
}

// mostReason bounds a reason, in bytes.
const mostReason = 1 << 10

// mostName bounds the name of a node, in bytes.
const mostName = 253

// mostConf bounds the parameters of a record, in bytes.
const mostConf = 4 << 10

// parameter is one of those that agents register (nodesize.Size, nodesize.Traits).
var parameter = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(CPUs|Boards|SocketsPerBoard|CoresPerSocket|ThreadsPerCore|RealMemory|TmpDisk|CpuSpecList|Gres|Features?|Topology|Weight)=[A-Za-z0-9_.:,=+/@()-]*$`)
})

// nodeName is the name of one node: never a host list, and never an option.
var nodeName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`) })

// check says whether slurmctld may be asked for it.
func (c Change) check() error {
	if err := c.checkConf(); err != nil {
		return err
	}
	reasoned, has := c.Verb == Drain || c.Verb == Fail || c.Verb == PowerOff, strings.TrimSpace(c.Reason) != ""
	switch {
	case !reasoned && !slices.Contains([]Verb{Delete, Renew, Resume, Recount, PowerDown}, c.Verb):
		return errors.New("there is no such verb")
	case len(c.Node) > mostName || !nodeName().MatchString(c.Node):
		return errors.New("that is not the name of a node")
	case reasoned != has && c.Verb != PowerDown, !has && c.Reason != "":
		return errors.New("want a reason for a drain, for DOWN and for power-off, and for nothing else but power-down")
	case len(c.Reason) > mostReason || strings.ContainsFunc(c.Reason, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("want a reason of %d bytes at most, in one line", mostReason)
	}
	return nil
}

func (c Change) checkConf() error {
	remakes := c.Verb == Delete || c.Verb == Renew
	bad := func(field string) bool { return !parameter().MatchString(field) }
	switch {
	case c.Conf != "" && !remakes, c.Conf == "" && c.Verb == Renew:
		return errors.New("want a record's parameters to renew it, and for nothing else but its deletion")
	case len(c.Conf) > mostConf || slices.ContainsFunc(strings.Fields(c.Conf), bad):
		return fmt.Errorf("want a record's parameters, as slurmd registers them, of %d bytes at most", mostConf)
	}
	return nil
}

// path is the change as it is asked for.
func (c Change) path() string {
	query := url.Values{"verb": {string(c.Verb)}, "node": {c.Node}}
	if c.Reason != "" {
		query.Set("reason", c.Reason)
	}
	if c.Conf != "" {
		query.Set("conf", c.Conf)
	}
	return Path + "?" + query.Encode()
}

func parseChange(query url.Values) (Change, error) {
	c := Change{Verb(query.Get("verb")), query.Get("node"), query.Get("reason"), query.Get("conf")}
	return c, c.check()
}

// result is what slurmctld has said of one node, or that it was not asked.
type result struct {
	word word
	text string
}

// word is the beginning of an answer.
type word string

const (
	// done: slurmctld has changed the record, or there is none to delete.
	done word = "done"
	// gone: slurmctld has deleted the record, and has had none when it was asked once more.
	gone word = "gone"
	// kept: the record is DOWN and drained, because a job or a reservation names the node.
	kept word = "kept"
	// busy: jobs or a reservation keep slurmctld from deleting the record.
	busy word = "busy"
	// refused: slurmctld has said no, for another reason.
	refused word = "refused"
	// silent: slurmctld has not answered, which is neither yes nor no.
	silent word = "silent"
	// unasked: slurmctld was not asked. The node's agent asks it.
	unasked word = "unasked"
)

// mostText bounds what is told of an error, in bytes.
const mostText = 2 << 10

func (r result) String() string {
	return strings.TrimSpace(string(r.word) + " " + r.text[:min(len(r.text), mostText)])
}

func parseResult(text string) (result, error) {
	first, rest, _ := strings.Cut(text, " ")
	switch r := (result{word(first), rest}); r.word {
	case done, gone, kept, busy, refused, silent, unasked:
		return r, nil
	}
	return result{}, errors.New("that is no answer to a change")
}
