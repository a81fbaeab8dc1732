package slurmconf

import (
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// identity has the keys that distinguish records which begin with the
// same key. Without an entry the name is enough.
var identity = map[Kind][]string{
	GresConf:    {"NodeName", "Name", "Type", "File", "MultipleFiles"},
	HelpersConf: {"NodeName", "Feature"},
}

// byTitle is records by what they are called. Of one that is there twice, the
// second one is called so, too.
type byTitle struct {
	titles []string
	record map[string]Record
}

func (k Kind) titlesOf(records []Record) byTitle {
	t := byTitle{record: map[string]Record{}}
	for _, r := range records {
		title := k.title(r)
		for n := 2; t.record[title].Line != nil; n++ {
			title = k.title(r) + " (" + strconv.Itoa(n) + ")"
		}
		t.titles = append(t.titles, title)
		t.record[title] = r
	}
	return t
}

// title is what a record is called: NodeName=n1, or NodeName=n1 Name=gpu.
func (k Kind) title(r Record) string {
	first := r.Pairs[0]
	parts := []string{first.Key + "=" + first.Value}
	for _, key := range identity[k] {
		if p, ok := r.Get(key); ok && !strings.EqualFold(key, first.Key) {
			parts = append(parts, key+"="+p.Value)
		}
	}
	return strings.Join(parts, " ")
}

// compareRecords compares records by what they are called.
func (d *comparison) compareRecords(key string) {
	before, after := d.kind.titlesOf(d.before.Records(key)), d.kind.titlesOf(d.after.Records(key))
	for _, title := range after.titles {
		if old, ok := before.record[title]; ok {
			d.compareRecord(title, old, after.record[title], nil)
		} else {
			d.add(title, "", nil, after.record[title].wholeText())
		}
	}
	for _, title := range before.titles {
		if _, ok := after.record[title]; !ok {
			d.add(title, "", before.record[title].wholeText(), nil)
		}
	}
	if d.kind == GresConf {
		d.compareOrder(before, after)
	}
}

// compareOrder adds the first record that changed places with another one. In
// gres.conf the order of lines is that of devices.
func (d *comparison) compareOrder(before, after byTitle) {
	old := slices.DeleteFunc(before.titles, func(t string) bool { return after.record[t].Line == nil })
	now := slices.DeleteFunc(after.titles, func(t string) bool { return before.record[t].Line == nil })
	for i, title := range now {
		if title != old[i] {
			d.add("", "order", &ValueAt{old[i], before.record[old[i]].Position()}, &ValueAt{title, after.record[title].Position()})
			return
		}
	}
}

// compareRecord compares what two records set, but for the keys to leave out, which
// are in lower case.
func (d *comparison) compareRecord(title string, before, after Record, without []string) {
	for _, key := range keysOf(before, after) {
		old, now := before.textOf(key), after.textOf(key)
		if !slices.Contains(without, strings.ToLower(key)) && !same(after, key, old, now) {
			d.add(title, key, old, now)
		}
	}
}

// keysOf is what the records set, DEFAULT lines counted, but for their names.
func keysOf(records ...Record) []string {
	seen := map[string]bool{}
	var keys []string
	for _, r := range records {
		lines := []*Line{r.Line}
		for def := r.Defaults; def != nil; def = def.Earlier {
			lines = append(lines, def.Line)
		}
		for _, l := range lines {
			for _, p := range l.Pairs[1:] {
				if key := strings.ToLower(p.Key); !seen[key] {
					seen[key] = true
					keys = append(keys, p.Key)
				}
			}
		}
	}
	return keys
}

// textOf is what counts for a key of the record, nil if nothing does.
func (r Record) textOf(key string) *ValueAt {
	if p, ok := r.Get(key); ok {
		return &ValueAt{p.Value, p.Position()}
	}
	return nil
}

// wholeText returns the record's line and its place.
func (r Record) wholeText() *ValueAt { return &ValueAt{strings.TrimSpace(r.Text()), r.Position()} }

// hostlists are keys whose values are sets of hosts or switches.
var hostlists = []string{"nodes", "switches", "allocnodes"}

// same: two values mean the same. Of a ring's nodes the order counts.
func same(r Record, key string, a, b *ValueAt) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.Text == b.Text {
		return true
	}
	if !slices.Contains(hostlists, strings.ToLower(key)) {
		return false
	}
	one, err1 := hostlist.Parse(a.Text)
	other, err2 := hostlist.Parse(b.Text)
	if !strings.EqualFold(r.Pairs[0].Key, "RingName") {
		one, other = one.Sorted(), other.Sorted()
	}
	return err1 == nil && err2 == nil && one.String() == other.String()
}

// comparePlugins compares plugstack.conf, in which the order counts.
func (d *comparison) comparePlugins() {
	if d.kind != PlugstackConf || d.before == nil || d.after == nil {
		return
	}
	before, after := d.before.stack(), d.after.stack()
	if before.Text != after.Text {
		d.add("", "plugins", before, after)
	}
}

// stack is the lines of plugstack.conf as one value.
func (c *Conf) stack() *ValueAt {
	var lines []string
	for l := range c.Lines() {
		lines = append(lines, l.Pairs[0].Key+" "+strings.Join(strings.Fields(l.Pairs[0].Value), " "))
	}
	return &ValueAt{strings.Join(lines, ", "), Position{File: c.File.Name}}
}
