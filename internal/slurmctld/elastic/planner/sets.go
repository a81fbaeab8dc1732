package planner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Sets are those that count, and the files that do not.
type Sets struct {
	// All are in the order of their names.
	All []Set
	// Bad are the names of files that hold no set that counts. Records of such a set are left alone.
	Bad []string
}

// Take makes sets of the files of a directory, by their names without Suffix. A file that cannot be used
// leaves its set as it was in last. The error names every fault.
func (last Sets) Take(files map[string][]byte) (Sets, error) {
	was := map[string]Set{}
	for _, s := range last.All {
		was[s.Name] = s
	}
	var next Sets
	var faults []error
	var changed []Set
	for _, name := range slices.Sorted(maps.Keys(files)) {
		s, err := Parse(name, files[name])
		before, had := was[name]
		switch {
		case err == nil && had && s.equal(before), err != nil && had:
			next.All = append(next.All, before)
		case err == nil:
			changed = append(changed, s)
		default:
			next.Bad = append(next.Bad, name)
		}
		if err != nil {
			faults = append(faults, err)
		}
	}
	for _, s := range changed {
		err := next.collides(s)
		if before, had := was[s.Name]; err != nil && had && next.collides(before) == nil {
			s = before
		} else if err != nil {
			next.Bad = append(next.Bad, s.Name)
			faults = append(faults, err)
			continue
		}
		if err != nil {
			faults = append(faults, err)
		}
		next.All = append(next.All, s)
	}
	slices.SortFunc(next.All, func(a, b Set) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(next.Bad)
	return next, errors.Join(faults...)
}

// collides names the sets that have names of s.
func (sets Sets) collides(s Set) error {
	var faults []error
	for _, other := range sets.All {
		if both := s.NodeNames.Intersection(other.NodeNames); both.Len() > 0 {
			faults = append(faults,
				fmt.Errorf("%s%s: nodes: %s%s has %s, too: want each name in one set", s.Name, Suffix, other.Name, Suffix, both))
		}
	}
	return errors.Join(faults...)
}

func (s Set) equal(o Set) bool {
	return s.Name == o.Name && s.NodeNames.String() == o.NodeNames.String() && s.Min == o.Min &&
		s.CreateParameters(true) == o.CreateParameters(true) && s.Traits == o.Traits
}

// Members are the nodes of elastic sets, and their sets. A record's mark names sets that no file has, and
// of those whose files have faults.
func (sets Sets) Members(nodes []slurm.Node) map[string]string {
	members := map[string]string{}
	for i := range nodes {
		n := &nodes[i]
		if !isOurs(n) {
			continue
		}
		if set, has := sets.Of(n.Name); has {
			members[n.Name] = set.Name
		} else if of := setOf(n.Comment); of != "" {
			members[n.Name] = of
		}
	}
	return members
}

// Of is the set that has a name.
func (sets Sets) Of(node string) (Set, bool) {
	for _, s := range sets.All {
		if s.NodeNames.Contains(node) {
			return s, true
		}
	}
	return Set{}, false
}

// Equal says whether the same sets count.
func (sets Sets) Equal(o Sets) bool {
	return slices.EqualFunc(sets.All, o.All, Set.equal) && slices.Equal(sets.Bad, o.Bad)
}

// Names returns the names of the sets that count, in order.
func (sets Sets) Names() []string {
	names := make([]string, len(sets.All))
	for i, s := range sets.All {
		names[i] = s.Name
	}
	return names
}
