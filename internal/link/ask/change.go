// Package ask is how a node's agent has slurmctld's agent make a change of its own node: the change, the request, and the
// answer. internal/link/merge makes one command of many.
package ask

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

// Verb says which change of a node slurmctld is to make.
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
	return regexp.MustCompile(
		`^(CPUs|Boards|SocketsPerBoard|CoresPerSocket|ThreadsPerCore|RealMemory|TmpDisk|CpuSpecList|Gres|Features?|Topology|Weight)` +
			`=[A-Za-z0-9_.:,=+/@()-]*$`)
})

// nodeName is the name of one node: never a host list, and never an option.
var nodeName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`) })

// Check says whether slurmctld may be asked for it.
func (c Change) Check() error {
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

// target is the change as it is asked for.
func (c Change) target() string {
	query := url.Values{"verb": {string(c.Verb)}, "node": {c.Node}}
	if c.Reason != "" {
		query.Set("reason", c.Reason)
	}
	if c.Conf != "" {
		query.Set("conf", c.Conf)
	}
	return Path + "?" + query.Encode()
}

// Parse reads the query of a request.
func Parse(query url.Values) (Change, error) {
	c := Change{Verb(query.Get("verb")), query.Get("node"), query.Get("reason"), query.Get("conf")}
	return c, c.Check()
}
