package slurmconf

import (
	"cmp"
	"slices"
	"strings"
)

// Change is one difference between two configurations, in Slurm's terms.
type Change struct {
	Kind Kind `json:"file"`
	// Record is the record, such as NodeName=n[1-4] or PartitionName=p; empty for
	// a key that stands alone, or for the file as a whole.
	Record string `json:"record,omitempty"`
	// Key is what has another value. Without one, the record or file has come or
	// gone.
	Key string `json:"key,omitempty"`
	// Old and New are nil where nothing was, or is, set. Slurm's default can be
	// the value nevertheless.
	Old *ValueAt `json:"old"`
	New *ValueAt `json:"new"`
}

// ValueAt is a value and where it stands.
type ValueAt struct {
	Text string   `json:"text"`
	From Position `json:"from"`
}

func (c Change) String() string {
	parts := slices.DeleteFunc([]string{string(c.Kind), c.Record, c.Key}, func(s string) bool { return s == "" })
	what := strings.Join(parts, ": ")
	switch {
	case c.Key == "" && c.Old == nil:
		return what + ": new (" + c.New.From.String() + ")"
	case c.Key == "" && c.New == nil:
		return what + ": gone (was " + c.Old.From.String() + ")"
	}
	from := c.Old
	if c.New != nil {
		from = c.New
	}
	return what + ": " + c.Old.shown() + " → " + c.New.shown() + " (" + from.From.String() + ")"
}

func (t *ValueAt) shown() string {
	if t == nil {
		return "not set"
	}
	return cmp.Or(t.Text, `""`)
}

func (t *ValueAt) withoutSecret(key string) *ValueAt {
	switch {
	case t == nil:
		return nil
	case IsSecret(key):
		return &ValueAt{Hidden, t.From}
	}
	return &ValueAt{Hide(t.Text), t.From}
}

// Diff is what changes for Slurm from one configuration to the other: values, not
// lines. Where they stand, in which order, in which file that is included, and how
// nodes are put together as hostlists, is no difference where it means none to Slurm.
func Diff(before, after *Set) []Change {
	var changes []Change
	for _, kind := range Kinds {
		d := comparison{kind: kind, before: before.Conf(kind), after: after.Conf(kind)}
		d.compare()
		changes = append(changes, d.changes...)
	}
	return changes
}

// comparison compares two Confs.
type comparison struct {
	kind          Kind
	before, after *Conf
	changes       []Change
}

func (d *comparison) compare() {
	switch {
	case d.before == nil && d.after == nil:
		return
	case d.before == nil || d.after == nil:
		d.add("", "", d.before.wholeText(), d.after.wholeText())
	case d.kind.yaml():
		d.compareText()
		return
	}
	for _, key := range d.keys() {
		switch {
		case d.kind == PlugstackConf:
		case key == "nodename" && d.kind == SlurmConf, key == "downnodes", key == "frontendname":
			d.compareHosts(key)
		case key == "slurmctldhost" || !d.kind.IsList(key):
			d.compareValues(key)
		case d.kind.IsRecord(key):
			d.compareRecords(key)
		default:
			d.compareValues(key)
		}
	}
	d.comparePlugins()
}

// compareText adds the first line of YAML that differs.
func (d *comparison) compareText() {
	old, now := strings.SplitAfter(d.before.File.String(), "\n"), strings.SplitAfter(d.after.File.String(), "\n")
	for i := range max(len(old), len(now)) {
		was, is := d.before.File.nth(old, i), d.after.File.nth(now, i)
		if was != is && (was == nil || is == nil || was.Text != is.Text) {
			d.add("", "text", was, is)
			return
		}
	}
}

// nth is a line of the file's text, nil behind its end.
func (f *File) nth(lines []string, i int) *ValueAt {
	if i >= len(lines) || lines[i] == "" {
		return nil
	}
	return &ValueAt{strings.Trim(lines[i], space), Position{File: f.Name, Line: i + 1}}
}

// keys are all that begin lines, in lower case and sorted.
func (d *comparison) keys() []string {
	var keys []string
	for _, c := range []*Conf{d.before, d.after} {
		if c != nil {
			for key := range c.byKey {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// compareValues compares what a key is given: one value, or a list whose order counts.
func (d *comparison) compareValues(key string) {
	before, after := d.before.value(d.kind, key), d.after.value(d.kind, key)
	if !d.kind.equal(key, before, after) {
		d.add("", cmp.Or(d.after.spelled(key), d.before.spelled(key)), before, after)
	}
}

// value returns the text that counts for a key, nil where the file does not set it.
func (c *Conf) value(kind Kind, key string) *ValueAt {
	all := c.All(key)
	if len(all) == 0 {
		return nil
	}
	if !kind.IsList(key) {
		all = all[len(all)-1:]
	}
	texts := make([]string, len(all))
	for i, p := range all {
		texts[i] = p.Value
	}
	return &ValueAt{strings.Join(texts, ", "), all[0].Position()}
}

// equal: the values are, or one is what the other is by default.
func (k Kind) equal(key string, a, b *ValueAt) bool {
	if a != nil && b != nil {
		return a.Text == b.Text
	}
	set := cmp.Or(a, b)
	standard, ok := defaults[key]
	return set == nil || ok && k == SlurmConf && set.Text == standard
}

// spelled is a key as the file has it.
func (c *Conf) spelled(key string) string {
	if all := c.All(key); len(all) > 0 {
		return all[0].Key
	}
	return ""
}

// wholeText is the file, nil if there is none.
func (c *Conf) wholeText() *ValueAt {
	if c == nil {
		return nil
	}
	return &ValueAt{From: Position{File: c.File.Name}}
}

// add adds a change; of a secret it leaves out both values.
func (d *comparison) add(record, key string, before, after *ValueAt) {
	before, after = before.withoutSecret(key), after.withoutSecret(key)
	d.changes = append(d.changes, Change{d.kind, record, key, before, after})
}
