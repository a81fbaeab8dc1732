// Package planner compares a file of accounts, QOS, users and their limits with what slurmdbd has, and says which commands
// of sacctmgr(1) make the two the same. It is pure: Parse reads the file, Compare makes the plan, and
// internal/slurmctld/accounts asks and changes slurmdbd.
package planner

import (
	"maps"
	"slices"
)

// Kind is what sacctmgr calls an entity.
type Kind string

// The kinds, in the order in which they are made.
const (
	QOS         Kind = "qos"
	Account     Kind = "account"
	User        Kind = "user"
	Association Kind = "association"
)

// Key names an entity. Account and Partition are those of an association, whose Name is the user's.
type Key struct {
	Kind                     Kind
	Name, Account, Partition string
}

// String is how messages and the record name the entity.
func (k Key) String() string {
	switch {
	case k.Kind != Association:
		return string(k.Kind) + " " + k.Name
	case k.Partition != "":
		return "user " + k.Name + " in account " + k.Account + " and partition " + k.Partition
	}
	return "user " + k.Name + " in account " + k.Account
}

// Entity is something that accounting has, or shall have.
type Entity struct {
	// Values are the attributes in their canonical form, by their names. Without one, an entity of a file says nothing
	// about it, and one of slurmdbd has Slurm's default.
	Values map[string]string
	// Line is where the file has the entity, 0 for one of slurmdbd.
	Line int
}

// Tables are all entities of a file, or of a cluster in slurmdbd.
type Tables map[Key]*Entity

// keys are those of one kind, sorted.
func (t Tables) keys(kind Kind) (all []Key) {
	names := map[string]Key{}
	for k := range t {
		if k.Kind == kind {
			names[k.String()] = k
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, names[name])
	}
	return all
}

func (t Tables) has(kind Kind, name string) bool { return t[Key{Kind: kind, Name: name}] != nil }

// value is that of an entity's attribute, empty where there is none.
func (t Tables) value(k Key, name string) string {
	if e := t[k]; e != nil {
		return e.Values[name]
	}
	return ""
}

// Made is what Apply has made of one entity.
type Made struct {
	// Created says whether the entity was not there before.
	Created bool `json:"created,omitempty"`
	// Set are the attributes that were set, as the file had them.
	Set map[string]string `json:"set,omitempty"`
}

// Record is what was made of a cluster's accounting, by Key.String: what has left the file since is taken away, and
// nothing else.
type Record struct {
	Cluster string           `json:"cluster"`
	Made    map[string]*Made `json:"made"`
	// Confirmed is the confirmation that was used last: it counts once, as long as the file has it.
	Confirmed int `json:"confirmed,omitempty"`
}

// Clone copies the record and all that it points to.
func (r Record) Clone() Record {
	c := Record{Cluster: r.Cluster, Confirmed: r.Confirmed, Made: make(map[string]*Made, len(r.Made))}
	for name, made := range r.Made {
		c.Made[name] = &Made{Created: made.Created, Set: maps.Clone(made.Set)}
	}
	return c
}

// of is the entity's entry, which it makes.
func (r Record) of(k Key) *Made {
	made := r.Made[k.String()]
	if made == nil {
		made = &Made{}
		r.Made[k.String()] = made
	}
	return made
}

// created counts the entities that were made.
func (r Record) created() (n int) {
	for _, made := range r.Made {
		if made.Created {
			n++
		}
	}
	return n
}
