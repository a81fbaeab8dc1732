// Package people says who has left, and has what such a person has here end: sessions in a login pod, jobs in
// slurmctld's.
//
// Two sources know people: the list of libnss-extrausers (the chart's value users), and a directory that sssd asks. A
// name that is taken out of the list has left. So has one whom the directory had let in, and whose account it refuses
// now or does not have. Silence and errors say nothing. sssd that is off-line repeats what it has said before, so only
// another answer than before, of the same sssd, counts.
//
// Judge is pure. Keeper reads the list, asks sssd, and has Options.End act on the verdict.
package people

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Person is somebody whom the list or the directory has known.
type Person struct {
	Name string `json:"name"`
	UID  int    `json:"uid"`
	// Listed says that the list had the name, and Admitted that the directory has let the person in.
	Listed   bool `json:"listed,omitempty"`
	Admitted bool `json:"admitted,omitempty"`
	// Seen is the day on which the person was last known to be here: the record is written when it changes.
	Seen time.Time `json:"seen"`
	// Held is since when the person's end waits for a confirmation, and Left since when it does not. They are zero for
	// those who have not left.
	Held time.Time `json:"held,omitzero"`
	Left time.Time `json:"left,omitzero"`

	// fresh says that this sssd has let the person in, and refused since when it no longer does, zero for never.
	fresh   bool
	refused time.Time
}

// Record has everybody whom the list or the directory has known, by name.
type Record map[string]*Person

// Answer is what the directory says of an account.
type Answer uint8

// The answers. NotAsked is that of a pod without a directory, too.
const (
	NotAsked Answer = iota
	Unsure          // silence, or an error
	Here
	Locked
	Gone
)

// Facts hold what is known at one time.
type Facts struct {
	Now time.Time
	// List has who is in the list, by name with their uids. HasList is false where there is none, or none that can be read.
	List    map[string]int
	HasList bool
	// Locals are the users of the image, who never leave.
	Locals map[string]int
	// Answers are the directory's. SameDirectory is false for those of an sssd that was started since the last ones.
	Answers       map[string]Answer
	SameDirectory bool
	// Present are those who have something here, by name with their uids.
	Present map[string]int
	// Confirmed are the names that may leave although they are many.
	Confirmed map[string]bool
}

// Verdict is what follows from the facts, for those who have something here.
type Verdict struct {
	// Leavers are those who have left, and Waiting those of them whose end waits for a confirmation.
	Leavers []Person
	Waiting []Waiting
}

// Waiting is somebody whose end waits, and why.
type Waiting struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

const (
	// atOnce is within which time those who leave count together.
	atOnce = 10 * time.Minute
	// fewest who leave at once are many if they are over a twentieth of those who are known.
	fewest, twentieth = 3, 20
	// sure is how long the directory must have refused somebody: sssd keeps an answer for pam_id_timeout, 5 s.
	sure = 10 * time.Second
	// forgotten is how long somebody is known who has nothing here and is not in the list.
	forgotten = 30 * 24 * time.Hour
)

// Judge takes facts into the record, and says who has left.
func (r Record) Judge(f Facts) (v Verdict) {
	r.admit(f)
	leavers, count, byUID := map[string]string{}, 0, r.byUID()
	for name, p := range r {
		doubt, left := p.leaves(f)
		if left {
			leavers[name] = cmp.Or(doubt, p.shares(byUID))
		}
		if left && p.Left.IsZero() && p.Held.IsZero() || recent(f.Now, p.Left) || recent(f.Now, p.Held) {
			count++
		}
	}
	many := count >= fewest && count*twentieth > len(r)
	for _, name := range slices.Sorted(maps.Keys(leavers)) {
		p, doubt := r[name], leavers[name]
		_, present := f.Present[name]
		switch {
		case p.Left.IsZero() && !f.Confirmed[name] && (doubt != "" || many || !p.Held.IsZero()):
			if p.Held.IsZero() {
				p.Held = f.Now
			}
			if present {
				v.Waiting = append(v.Waiting, Waiting{name, cmp.Or(doubt, "many have left at once")})
			}
			continue
		case p.Left.IsZero():
			p.Left, p.Held = f.Now, time.Time{}
		case p.Listed && !present && !recent(f.Now, p.Left):
			delete(r, name)
		}
		if present {
			v.Leavers = append(v.Leavers, *p)
		}
	}
	return v
}

// byUID has the names of those who have not left.
func (r Record) byUID() map[int][]string {
	all := map[int][]string{}
	for name, p := range r {
		if p.Left.IsZero() {
			all[p.UID] = append(all[p.UID], name)
		}
	}
	return all
}

// shares says who else has somebody's uid: what ends by the uid would be theirs, too. It is empty for nobody.
func (p *Person) shares(byUID map[int][]string) string {
	others := slices.DeleteFunc(slices.Sorted(slices.Values(byUID[p.UID])), func(name string) bool { return name == p.Name })
	if len(others) == 0 {
		return ""
	}
	return fmt.Sprintf("%s has the same uid, %d", others[0], p.UID)
}

func recent(now, then time.Time) bool { return !then.IsZero() && now.Sub(then) < atOnce }

// admit takes those who are in the list or whom the directory lets in, and forgets those who are somebody else now.
func (r Record) admit(f Facts) {
	taken := map[int]bool{}
	for name, uid := range f.List {
		taken[uid] = true
		if !f.local(name, uid) {
			p := r.come(name, uid, f)
			p.Listed = true
		}
	}
	for name, answer := range f.Answers {
		uid, present := f.Present[name]
		if p := r[name]; p != nil && !present {
			uid = p.UID
		}
		if answer == Here && !f.local(name, uid) {
			p := r.come(name, uid, f)
			_, p.Listed = f.List[name]
			p.Admitted, p.fresh = true, true
		}
	}
	for _, uid := range f.Locals {
		taken[uid] = true
	}
	for name, p := range r {
		if _, present := f.Present[name]; present {
			p.Seen = f.day()
		}
		if !f.SameDirectory {
			p.fresh, p.refused = f.Answers[name] == Here, time.Time{}
		}
		_, listed := f.List[name]
		if !listed && (taken[p.UID] || f.local(name, p.UID) || f.Now.Sub(p.Seen) > forgotten) {
			delete(r, name)
		}
	}
}

// come has somebody be here, who may have been away.
func (r Record) come(name string, uid int, f Facts) *Person {
	p := r[name]
	if p == nil {
		p = &Person{Name: name}
		r[name] = p
	}
	p.UID, p.Seen, p.Held, p.Left, p.refused = uid, f.day(), time.Time{}, time.Time{}, time.Time{}
	return p
}

func (f Facts) day() time.Time { return f.Now.UTC().Truncate(24 * time.Hour) }

// firstUID is the first that Debian gives people. Daemons and the system have smaller ones.
const firstUID = 1000

// local says whether somebody is a user of the image or of the system, whom no list and no directory takes away.
func (f Facts) local(name string, uid int) bool {
	_, known := f.Locals[name]
	return known || uid < firstUID
}

// leaves says whether somebody has left, and what keeps that from being believed, empty for nothing.
func (p *Person) leaves(f Facts) (doubt string, left bool) {
	if _, listed := f.List[p.Name]; listed {
		return "", false
	}
	answer := f.Answers[p.Name]
	switch {
	case answer == Unsure:
		p.refused = time.Time{}
		return "", false
	case p.Listed:
		if len(f.List) == 0 {
			doubt = "the list of users is empty"
		}
		return doubt, f.HasList
	case answer != Locked && answer != Gone:
		return "", false
	case p.refused.IsZero():
		p.refused = f.Now
		return "", false
	case f.Now.Sub(p.refused) < sure:
		return "", false
	case !p.fresh:
		return "the directory refuses the account, and has not let it in since sssd was started", true
	}
	for name, other := range f.Answers {
		if other == Here && name != p.Name {
			return "", true
		}
	}
	return "the directory refuses everybody who is known here", true
}
