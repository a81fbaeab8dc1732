package planner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// Set is an elastic node set: nodes of one size, which Slurm starts and ends.
type Set struct {
	Name string
	// NodeNames are all names that the set may have; Min is how many stay up.
	NodeNames hostlist.Set
	Min       int
	// Idle is after how many seconds without a job a node is suspended; 0: as its partition says.
	Idle int
	// Size and Traits are what the agent of such a pod will measure.
	Size   nodesize.Size
	Traits nodesize.Traits
	conf   string // Size's
}

// file is a set as it is written.
type file struct {
	Nodes         string   `json:"nodes"`
	Min           int      `json:"min"`
	IdleSeconds   int      `json:"idleSeconds"`
	CPULimit      string   `json:"cpuLimit"`
	MemoryLimit   string   `json:"memoryLimit"`
	StorageLimit  string   `json:"storageLimit"`
	MemoryReserve string   `json:"memoryReserve"`
	Gres          string   `json:"gres"`
	Features      []string `json:"features"`
	Weight        string   `json:"weight"`
	Topology      string   `json:"topology"`
}

// Suffix ends the names of the files that hold sets.
const Suffix = ".json"

// MostNodes is how many nodes a set may have, which is slurmctld's greatest MaxNodeCount.
const MostNodes = 65_536

// mostIdle is some 28 years, which is for ever.
const mostIdle = 900_000_000

const (
	lower        = "abcdefghijklmnopqrstuvwxyz"
	alphanumeric = lower + "0123456789"
	// mostName is how long a pod's host name may be.
	mostName = 63
)

// Parse reads the file of a set. The set's name is the file's. The error names the file, each value that
// cannot be used, and what is allowed.
func Parse(name string, text []byte) (Set, error) {
	s, faults := parse(name, text)
	for i, err := range faults {
		faults[i] = fmt.Errorf("%s%s: %w", name, Suffix, err)
	}
	if len(faults) > 0 {
		return Set{}, errors.Join(faults...)
	}
	return s, nil
}

func parse(name string, text []byte) (Set, []error) {
	s := Set{Name: name}
	if !isLabel(name) {
		return s,
			[]error{
				fmt.Errorf(
					"cannot use the name %q: want small letters, digits and '-', with a letter or a digit at both "+
						"ends, and at most %d characters", name, mostName),
			}
	}
	var f file
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return s, []error{jsonFault(err)}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return s, []error{errors.New("want one object of JSON, and nothing after it")}
	}
	nodes, err := parseNodes(f.Nodes)
	var faults []error
	if err != nil {
		faults = append(faults, fmt.Errorf("nodes: cannot use %q: %w", f.Nodes, err))
	}
	s.NodeNames = nodes
	if f.Min < 0 || err == nil && f.Min > nodes.Len() {
		faults = append(faults,
			fmt.Errorf("min: cannot use %d: want a number from 0 to %d, as many as there are nodes", f.Min, nodes.Len()))
	}
	if f.IdleSeconds < 0 || f.IdleSeconds > mostIdle {
		faults = append(faults, fmt.Errorf("idleSeconds: cannot use %d: want a number from 0 to %d", f.IdleSeconds, mostIdle))
	}
	s.Min, s.Idle = f.Min, f.IdleSeconds
	s.Size, s.Traits, err = nodesize.Promised(nodesize.Promise{
		CPU: f.CPULimit, Memory: f.MemoryLimit, Storage: f.StorageLimit, Reserve: f.MemoryReserve,
		Gres: f.Gres, Features: f.Features, Topology: f.Topology, Weight: f.Weight,
	})
	s.conf = s.Size.Conf()
	return s, append(faults, promiseFaults(err)...)
}

// jsonFault says in the file's words what is wrong.
func jsonFault(err error) error {
	if kind, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		return fmt.Errorf("%s: want a %s, not a %s", kind.Field, kind.Type, kind.Value)
	}
	if field, is := strings.CutPrefix(err.Error(), "json: unknown field "); is {
		return fmt.Errorf("there is no key %s; there are %s", field, strings.Join(keys, ", "))
	}
	return fmt.Errorf("want an object of JSON: %w", err)
}

var keys = []string{
	"nodes", "min", "idleSeconds", "cpuLimit", "memoryLimit", "storageLimit", "memoryReserve", "gres",
	"features", "weight", "topology",
}

// keyOf are the keys of a Promise's fields.
var keyOf = map[string]string{
	"CPU": "cpuLimit", "Memory": "memoryLimit", "Storage": "storageLimit", "Reserve": "memoryReserve",
	"Gres": "gres", "Features": "features", "Topology": "topology", "Weight": "weight",
}

func promiseFaults(err error) (faults []error) {
	if err == nil {
		return nil
	}
	all := []error{err}
	if joined, is := err.(interface{ Unwrap() []error }); is {
		all = joined.Unwrap()
	}
	for _, one := range all {
		if fault, is := errors.AsType[*nodesize.PromiseFault](one); is {
			one = fmt.Errorf("%s: cannot use %q: %w", keyOf[fault.Field], fault.Value, fault.Err)
		}
		faults = append(faults, one)
	}
	return faults
}

// parseNodes takes names that pods can have.
func parseNodes(text string) (hostlist.Set, error) {
	list, err := hostlist.Parse(text)
	if err != nil {
		return hostlist.Set{}, err
	}
	nodes := list.Set()
	switch n := nodes.Len(); {
	case n == 0:
		return hostlist.Set{}, errors.New("want the names of all nodes that there may be, such as gpu-[0-99]")
	case n > MostNodes:
		return hostlist.Set{}, fmt.Errorf("want at most %d nodes, not %d", MostNodes, n)
	case n != list.Len():
		return hostlist.Set{}, errors.New("want each name only once")
	}
	for name := range nodes.All() {
		if !isLabel(name) {
			return hostlist.Set{},
				fmt.Errorf(
					"want names of pods: small letters, digits and '-', with a letter or a digit at both ends, and "+
						"at most %d characters; %q is none", mostName, name)
		}
		if slices.Contains(reserved, name) {
			return hostlist.Set{}, fmt.Errorf("%q has a meaning of its own in slurm.conf", name)
		}
	}
	return nodes, nil
}

var reserved = []string{"all", "default", "localhost"}

// isLabel: a pod's host name is one (RFC 1123).
func isLabel(name string) bool {
	return name != "" && len(name) <= mostName && strings.Trim(name, alphanumeric+"-") == "" && strings.Trim(name, "-") == name
}

// CreateParameters is what scontrol create needs besides the names. timed says that records have a SuspendTime of their own.
func (s Set) CreateParameters(timed bool) string {
	return s.conf + s.suspend(timed) + s.Traits.Conf() + " State=CLOUD"
}

// suspend: from 26.05 on a record keeps the SuspendTime that its partition had when the record was made, and that
// may have been none.
func (s Set) suspend(timed bool) string {
	if !timed || s.Idle == 0 {
		return ""
	}
	return suspendTime + strconv.Itoa(s.Idle)
}

const suspendTime = " SuspendTime="
