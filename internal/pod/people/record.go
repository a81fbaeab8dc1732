package people

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// misses says whether somebody who was in the list is not in it now.
func (r Record) misses(f Facts) bool {
	for name, p := range r {
		if _, listed := f.List[name]; p.Listed && f.HasList && !listed {
			return true
		}
	}
	return false
}

// names names the holders. One whose name nobody knows any more has that of the record.
func (r Record) names(holders []Holder) map[string]int {
	byUID := map[int]string{}
	for name, p := range r {
		byUID[p.UID] = name
	}
	all := map[string]int{}
	for _, h := range holders {
		if h.Name == "" || h.Name == strconv.Itoa(h.UID) {
			h.Name = byUID[h.UID]
		}
		if h.Name != "" {
			all[h.Name] = h.UID
		}
	}
	return all
}

// asked are those whom the directory is asked for, by name.
func (r Record) asked(f Facts) (all []string) {
	wanted := map[string]int{}
	maps.Copy(wanted, f.Present)
	for name, p := range r {
		if !p.Held.IsZero() || p.Listed && f.HasList {
			wanted[name] = p.UID
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if _, listed := f.List[name]; !listed && !f.local(name, wanted[name]) {
			all = append(all, name)
		}
	}
	return all
}

// doubted says whether the directory has refused somebody, and not for long enough.
func (r Record) doubted() bool {
	for _, p := range r {
		if !p.refused.IsZero() && p.Left.IsZero() && p.Held.IsZero() {
			return true
		}
	}
	return false
}

// witnesses are others whom the directory has let in, who were here last.
func (r Record) witnesses(asked map[string]Answer) (all []string) {
	for name, p := range r {
		if _, known := asked[name]; p.Admitted && !known {
			all = append(all, name)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(r[b].Seen.Compare(r[a].Seen), cmp.Compare(a, b)) })
	return all[:min(len(all), mostWitnesses)]
}

// readRecord reads the record, once.
func (k *Keeper) readRecord() error {
	if k.record != nil {
		return nil
	}
	r := Record{}
	text, err := os.ReadFile(k.Record)
	if k.Record != "" && !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		for name, p := range r {
			if p == nil || p.Name != name {
				err = errors.New("it has a person without a name")
			}
		}
		if err != nil {
			return fmt.Errorf("cannot read the record of people, so nobody is taken for a leaver: %w", err)
		}
	}
	k.record, k.written = r, text
	return nil
}

// writeRecord replaces the file if it is to be another.
func (k *Keeper) writeRecord() error {
	if k.Record == "" {
		return nil
	}
	text, err := json.Marshal(k.record)
	if err != nil || bytes.Equal(text, k.written) {
		return err
	}
	if err = os.MkdirAll(filepath.Dir(k.Record), 0o700); err == nil {
		next := k.Record + ".next"
		if err = os.WriteFile(next, text, 0o600); err == nil {
			err = os.Rename(next, k.Record)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot write the record of people: %w", err)
	}
	k.written = text
	return nil
}
