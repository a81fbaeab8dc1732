package series

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// ownerCounts has the sums over the jobs of a user or an account.
type ownerCounts struct {
	name, uid string
	jobs      jobCounts
}

// hostNumbers are the numbers of the nodes of host lists. Many jobs have the same list.
type hostNumbers struct {
	numbers map[string]int
	lists   map[string][]int
}

func (h hostNumbers) of(expression string) []int {
	if n, one := h.numbers[expression]; one {
		return []int{n}
	}
	if list, known := h.lists[expression]; known {
		return list
	}
	var found []int
	if hosts, err := hostlist.Parse(expression); err == nil { // slurmctld has written it
		for name := range hosts.All() {
			n, known := h.numbers[name]
			if !known { // its record is gone
				n = len(h.numbers)
				h.numbers[name] = n
			}
			found = append(found, n)
		}
	}
	h.lists[expression] = found
	return found
}

// owners are the users or accounts that have series of their own, and other for the rest.
type owners struct {
	named map[string]*ownerCounts
	other *ownerCounts
}

// otherLabel is the label's value for all that have no series of their own.
const otherLabel = "other"

// ownersOf gives series to those with the most jobs.
func ownersOf(v *clusterview.View, o Options) (users, accounts owners) {
	if o.Users == 0 {
		return owners{}, owners{}
	}
	byUser, byAccount := map[string]int{}, map[string]int{}
	for j := range v.Jobs.All() {
		byUser[j.User]++
		byAccount[j.Account]++
	}
	return newOwners(byUser, o.Users), newOwners(byAccount, o.Users)
}

func newOwners(records map[string]int, most int) owners {
	o := owners{named: map[string]*ownerCounts{}, other: &ownerCounts{name: otherLabel}}
	for _, name := range largest(records, most) {
		o.named[name] = &ownerCounts{name: name}
	}
	return o
}

// of is whose counts a job of that name adds to; nil where nobody asked for them.
func (o owners) of(name string) *ownerCounts {
	if owner := o.named[name]; owner != nil {
		return owner
	}
	return o.other
}

func (o owners) sorted() (all []*ownerCounts) {
	for _, name := range slices.Sorted(maps.Keys(o.named)) {
		all = append(all, o.named[name])
	}
	if o.other != nil && o.other.jobs.records > 0 {
		all = append(all, o.other)
	}
	return all
}

// largest are the names with the most, and of equals the first by name. A thing that is named other
// is not among them.
func largest(amounts map[string]int, most int) []string {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(amounts)), func(name string) bool { return name == otherLabel })
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(amounts[b]-amounts[a], strings.Compare(a, b)) })
	return names[:min(len(names), most)]
}

// bounded adds up what has no series of its own as other. The key's part at index i is what is bounded.
func bounded(amounts map[[2]string]int, i, most int) map[[2]string]int {
	totals := map[string]int{}
	for key, n := range amounts {
		totals[key[i]] += n
	}
	if len(totals) <= most {
		return amounts
	}
	kept, result := largest(totals, most), map[[2]string]int{}
	for key, n := range amounts {
		if !slices.Contains(kept, key[i]) {
			key[i] = otherLabel
		}
		result[key] += n
	}
	return result
}
