package clusterview

import "strings"

// texts gives equal texts, and equal lists of them, one place in memory.
type texts struct {
	one   map[string]string
	lists map[string][]string
}

func newTexts() *texts {
	return &texts{one: map[string]string{}, lists: map[string][]string{}}
}

// text keeps a copy, because s may be a part of a longer text.
func (t *texts) text(s string) string {
	if s == "" {
		return ""
	}
	kept, found := t.one[s]
	if !found {
		kept = strings.Clone(s)
		t.one[kept] = kept
	}
	return kept
}

// list keeps a list that is written with commas; nil for the empty text.
func (t *texts) list(joined string) []string {
	if joined == "" {
		return nil
	}
	return t.keepAll(strings.Split(joined, ","))
}

// keepAll keeps a list; nil for an empty one.
func (t *texts) keepAll(all []string) []string {
	if len(all) == 0 {
		return nil
	}
	key := strings.Join(all, "\x00")
	kept, found := t.lists[key]
	if !found {
		kept = make([]string, len(all))
		for i, one := range all {
			kept[i] = t.text(one)
		}
		t.lists[key] = kept
	}
	return kept
}
