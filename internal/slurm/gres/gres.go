// Package gres has generic resources in Slurm's words: Gres= of slurm.conf(5), and gres.conf(5).
package gres

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// List is a node's generic resources, Gres= of slurm.conf(5).
type List []Resource

// Resource is one of them: name[:type]:count.
type Resource struct {
	Name  string
	Type  string
	Count uint64
}

// String is the text for Gres=.
func (g List) String() string {
	var all []string
	for _, r := range g {
		all = append(all, r.String())
	}
	return strings.Join(all, ",")
}

// MarshalText and UnmarshalText make JSON hold Slurm's text.
func (g List) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (g *List) UnmarshalText(text []byte) error {
	*g = Recorded(string(text))
	return nil
}

func (r Resource) String() string { return r.kind() + ":" + strconv.FormatUint(r.Count, 10) }

// kind is the resource without its count; Slurm does not distinguish cases in types.
func (r Resource) kind() string {
	if r.Type == "" {
		return r.Name
	}
	return r.Name + ":" + r.Type
}

func (r Resource) same(o Resource) bool { return strings.EqualFold(r.kind(), o.kind()) }

// Parse reads name[:type][:count],… strictly, as people write it.
func Parse(text string) (List, error) {
	var all List
	for one := range strings.SplitSeq(text, ",") {
		r, err := parseResource(one)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, r.same) {
			return nil, fmt.Errorf("want %s only once", r.kind())
		}
		if slices.ContainsFunc(all, func(o Resource) bool { return o.Name == r.Name && (o.Type == "") != (r.Type == "") }) {
			return nil, fmt.Errorf("want every %s with a type, or none", r.Name)
		}
		all = append(all, r)
	}
	return all, nil
}

var errResource = errors.New(
	"want name[:type][:count], several separated by commas, such as gpu:h200:2: small letters, digits and '_', in " +
		"a type also capitals, '-' and '.', and a count of 1 or more")

func parseResource(text string) (Resource, error) {
	parts := strings.Split(text, ":")
	r := Resource{Name: parts[0], Count: 1}
	last := parts[len(parts)-1]
	if n, err := strconv.ParseUint(last, 10, 63); err == nil && len(parts) > 1 {
		r.Count, parts = n, parts[:len(parts)-1]
	}
	if len(parts) == 2 {
		r.Type = parts[1]
	}
	if len(parts) > 2 || !validName(r.Name) || len(parts) == 2 && !validType(r.Type) || r.Count == 0 {
		return Resource{}, errResource
	}
	return r, nil
}

// lower are the characters of names.
const lower = "abcdefghijklmnopqrstuvwxyz0123456789"

func validName(name string) bool {
	return name != "" && strings.Trim(name, lower+"_") == "" && strings.IndexByte(lower[:26], name[0]) >= 0
}

// validType: no_consume has a meaning of its own in a type's place.
func validType(name string) bool {
	inside := strings.Trim(strings.ToLower(name), lower+"_-.") == ""
	return name != "" && inside && strings.TrimLeft(name, "_-.") == name && name != "no_consume"
}

// Recorded reads the Gres of a node record: slurmctld adds sockets, as in
// gpu:h200:2(S:0-1), and writes 2048 as 2K. What it cannot read is left out.
func Recorded(text string) List {
	var all List
	for one := range strings.SplitSeq(withoutSockets(text), ",") {
		one = strings.Replace(one, ":no_consume", "", 1)
		if r, err := parseResource(unsuffixed(one)); err == nil {
			all = append(all, r)
		}
	}
	return all
}

// withoutSockets drops what is in parentheses, commas too.
func withoutSockets(text string) string {
	for {
		from := strings.IndexByte(text, '(')
		if from < 0 {
			return text
		}
		to := strings.IndexByte(text[from:], ')')
		if to < 0 {
			return text[:from]
		}
		text = text[:from] + text[from+to+1:]
	}
}

// unsuffixed writes a count that ends in K, M, G, T or P in full.
func unsuffixed(text string) string {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 || text == "" {
		return text
	}
	power := strings.IndexByte("KMGTP", text[len(text)-1]) + 1
	n, err := strconv.ParseUint(text[colon+1:len(text)-1], 10, 63)
	if power == 0 || err != nil || n > 1<<(63-10*power) {
		return text
	}
	return text[:colon+1] + strconv.FormatUint(n<<(10*power), 10)
}

// Differs says whether a record has other resources: more or fewer of a kind
// that is registered, or a gpu that is not. Other names are the cluster's own,
// as are those that its GresTypes does not list: slurmctld drops them.
func (g List) Differs(record List, types []string) bool {
	for _, r := range append(slices.Clone(g), record...) {
		ours := r.Name == "gpu" || slices.ContainsFunc(g, func(o Resource) bool { return o.Name == r.Name })
		if ours && (types == nil || slices.Contains(types, r.Name)) && g.count(r) != record.count(r) {
			return true
		}
	}
	return false
}

func (g List) count(kind Resource) uint64 {
	for _, r := range g {
		if r.same(kind) {
			return r.Count
		}
	}
	return 0
}
