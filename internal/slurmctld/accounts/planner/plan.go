package planner

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Change is one that Apply makes of an entity.
type Change struct {
	Key
	// Verb is add, modify or delete.
	Verb string
	// Set are the values that "set" gets, by attribute and in sacctmgr's spelling; Wanted are those of the file that
	// they bring about, which the record keeps. Of an attribute that is taken away, the latter has none.
	Set, Wanted map[string]string
	// Before has the values that are there.
	Before map[string]string
	// rank is 0 for a user's default account, which slurmdbd must get first.
	rank int
	// whole: the user goes with all associations of the cluster.
	whole bool
	// gains and loses are coordinators of an account.
	gains, loses []string
}

// Plan has what Apply does.
type Plan struct {
	Changes []Change
	// Keeps are entities that the file has no longer, and why they stay all the same.
	Keeps []string
	// Removals are how many entities go. Confirm says whether somebody has to confirm that number.
	Removals int
	// Removed names them, the first of many.
	Removed string
	Confirm bool
	cluster string
}

// Empty says whether there is nothing to do.
func (p *Plan) Empty() bool { return len(p.Changes) == 0 }

// compared has what Compare looks at.
type compared struct {
	file   *File
	now    Tables
	record Record
	prune  bool
	plan   Plan
	// inOrder are the entities of slurmdbd.
	inOrder []Key
}

// Compare says what makes slurmdbd (now) that which the file has. What the record says was made, and the file has no
// longer, goes. With prune, so does what nobody has made.
func Compare(file *File, now Tables, record Record, prune bool) Plan {
	c := compared{file: file, now: now, record: record, prune: prune, plan: Plan{cluster: record.Cluster}}
	for _, k := range order(file.Tables) {
		c.compare(k)
	}
	c.forgotten()
	c.remove()
	return c.plan
}

// order is that in which entities are made: parents before their children.
func order(t Tables) (all []Key) {
	all = append(all, t.keys(QOS)...)
	accounts := t.keys(Account)
	depth := func(k Key) (n int) {
		for ; n < len(accounts) && t[k] != nil; n++ {
			k.Name = t.value(k, "Parent")
		}
		return n
	}
	for at, left := 0, len(accounts); left > 0; at++ {
		for _, k := range accounts {
			if depth(k) == at {
				all = append(all, k)
				left--
			}
		}
	}
	var later []Key
	for _, k := range t.keys(Association) {
		if rank(t, k) == 0 {
			all = append(all, k)
		} else {
			later = append(later, k)
		}
	}
	return append(append(all, later...), t.keys(User)...)
}

// rank has a user's default account come first: slurmdbd makes the first one the default.
func rank(t Tables, k Key) int {
	if t.value(Key{Kind: User, Name: k.Name}, "DefaultAccount") == k.Account {
		return 0
	}
	return 1
}

// compare plans what one entity of the file needs.
func (c *compared) compare(k Key) {
	want, have := c.file.Tables[k], c.now[k]
	change := Change{Key: k, Verb: "modify", Set: map[string]string{}, Wanted: map[string]string{}, Before: map[string]string{}}
	if k.Kind == Association {
		change.rank = rank(c.file.Tables, k)
	}
	if have == nil {
		change.Verb, have = "add", &Entity{}
	}
	for a := range attributes(k.Kind) {
		value, given := want.Values[a.Name]
		before := cmp.Or(have.Values[a.Name], a.byDefault)
		if made := c.valueMade(k, a.Name); !given && made != "" && !a.stays {
			c.takeAway(&change, a, made, before)
			continue
		}
		if !given || c.coordinators(&change, a, value, before) {
			continue
		}
		if a.form == tres {
			c.setTRES(&change, a, value, before)
			continue
		}
		if value = cmp.Or(value, a.byDefault); value != before {
			change.set(a, value, before)
		}
	}
	if k.Kind == User && change.Verb == "add" { // an association's command makes the user
		change.Verb = "modify"
		delete(change.Set, "DefaultAccount")
	}
	if change.Verb == "add" || len(change.Set)+len(change.gains)+len(change.loses) > 0 {
		c.plan.Changes = append(c.plan.Changes, change)
	}
}

func (change *Change) set(a *Attribute, value, before string) {
	change.Set[a.Name], change.Wanted[a.Name], change.Before[a.Name] = a.spelled(value), value, before
	if value == "" {
		change.Set[a.Name] = a.away(before)
	}
}

// valueMade is the value that was set of an attribute, empty where none was.
func (c *compared) valueMade(k Key, attribute string) string {
	if made := c.record.Made[k.String()]; made != nil {
		return made.Set[attribute]
	}
	return ""
}

// takeAway undoes what was set. A value that somebody else has set since stays.
func (c *compared) takeAway(change *Change, a *Attribute, made, before string) {
	if a.Name == "Coordinators" {
		c.coordinators(change, a, "", before)
		return
	}
	if a.form == tres {
		now, gone := split(before), map[string]string{}
		for name, amount := range split(made) {
			if now[name] == amount {
				gone[name] = "-1"
			}
		}
		if len(gone) > 0 {
			change.Set[a.Name], change.Before[a.Name] = joined(gone), before
		}
		return
	}
	if made == before && before != a.byDefault {
		change.Set[a.Name], change.Before[a.Name] = a.away(before), before
	}
}

// setTRES sets those of the file, and takes those away that it had. Others stay.
func (c *compared) setTRES(change *Change, a *Attribute, value, before string) {
	want, now, set := split(value), split(before), map[string]string{}
	for name, amount := range want {
		if now[name] != amount {
			set[name] = amount
		}
	}
	for name := range split(c.valueMade(change.Key, a.Name)) {
		if want[name] == "" && now[name] != "" {
			set[name] = "-1"
		}
	}
	if value == "" && before != "" { // -1 in the file: no limit at all
		set = split(a.away(before))
	}
	if len(set) > 0 {
		change.Set[a.Name], change.Wanted[a.Name], change.Before[a.Name] = joined(set), value, before
	}
}

// coordinators plans those of an account, and says whether the attribute is theirs.
func (c *compared) coordinators(change *Change, a *Attribute, value, before string) bool {
	if a.Name != "Coordinators" {
		return false
	}
	want, now, made := elements(value), elements(before), elements(c.valueMade(change.Key, a.Name))
	for _, one := range want {
		if !slices.Contains(now, one) {
			change.gains = append(change.gains, one)
		}
	}
	for _, one := range made {
		if !slices.Contains(want, one) && slices.Contains(now, one) {
			change.loses = append(change.loses, one)
		}
	}
	if len(change.gains)+len(change.loses) > 0 {
		change.Wanted[a.Name], change.Before[a.Name] = value, before
	}
	return true
}

func elements(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(one string) bool { return one == "" })
}

// forgotten takes attributes back that were set of entities which the file does not have, and which it has not made.
func (c *compared) forgotten() {
	for _, k := range order(c.now) {
		made := c.record.Made[k.String()]
		if made == nil || made.Created || c.file.Tables[k] != nil {
			continue
		}
		change := Change{Key: k, Verb: "modify", Set: map[string]string{}, Wanted: map[string]string{}, Before: map[string]string{}}
		for _, name := range slices.Sorted(maps.Keys(made.Set)) {
			if a := find(k.Kind, name); a != nil && !a.stays {
				c.takeAway(&change, a, made.Set[name], cmp.Or(c.now.value(k, name), a.byDefault))
			}
		}
		if len(change.Set)+len(change.loses) > 0 {
			c.plan.Changes = append(c.plan.Changes, change)
		}
	}
}

// Without are the plan's changes of which the other plan has none.
func (p *Plan) Without(left *Plan) *Plan {
	type one struct {
		Key
		verb string
	}
	open := map[one]bool{}
	for i := range left.Changes {
		open[one{left.Changes[i].Key, left.Changes[i].Verb}] = true
	}
	done := &Plan{cluster: p.cluster}
	for i := range p.Changes {
		if !open[one{p.Changes[i].Key, p.Changes[i].Verb}] {
			done.Changes = append(done.Changes, p.Changes[i])
		}
	}
	return done
}
