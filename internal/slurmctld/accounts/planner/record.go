package planner

import "slices"

// Note is the record with all that the plan is about to make: who dies in the middle knows later what may be its own.
func (r Record) Note(p *Plan) Record {
	r = r.Clone()
	for i := range p.Changes {
		change := &p.Changes[i]
		if change.Verb == "add" {
			r.of(change.Key).Created = true
		}
		for name, value := range change.Wanted {
			made := r.of(change.Key)
			if made.Set == nil {
				made.Set = map[string]string{}
			}
			made.Set[name] = value
		}
	}
	return r
}

// Settle is the record with what is there alone: entities that are gone leave it, and so do attributes that the file does
// not have and whose values are gone.
func (r Record) Settle(file *File, now Tables) Record {
	r = r.Clone()
	there := make(map[string]Key, len(now))
	for k := range now {
		there[k.String()] = k
	}
	for name, made := range r.Made {
		k, is := there[name]
		if !is {
			delete(r.Made, name)
			continue
		}
		for attribute, value := range made.Set {
			wanted := file.Tables[k]
			has := false
			if wanted != nil {
				_, has = wanted.Values[attribute]
			}
			if !has && !still(find(k.Kind, attribute), value, now.value(k, attribute)) {
				delete(made.Set, attribute)
			}
		}
		if !made.Created && len(made.Set) == 0 {
			delete(r.Made, name)
		}
	}
	return r
}

// still says whether a value, or a part of it, is there.
func still(a *Attribute, made, now string) bool {
	if a == nil {
		return false
	}
	if a.form != tres && a.form != list {
		return made == now
	}
	for _, one := range elements(made) {
		if slices.Contains(elements(now), one) {
			return true
		}
	}
	return false
}
