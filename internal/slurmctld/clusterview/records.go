package clusterview

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// record is one line of "scontrol --oneliner show". It keeps the first fault of its fields.
type record struct {
	// name is the record's own, for faults.
	name   string
	fields map[string]string
	err    error
}

// longestLine bounds a line. That of a partition has all of its nodes.
const longestLine = 32 << 20

// eachRecord reads what "scontrol --oneliner show" prints: a line for each record, which begins
// with the field first. A line that begins otherwise goes on with a text of the last one. The one
// line that says that there are no records is a sentence with nobody's word.
func eachRecord(from io.Reader, first, nobody string, tail []string, each func(*record) error) error {
	in := bufio.NewScanner(from)
	in.Buffer(make([]byte, 0, 64<<10), longestLine)
	r := record{fields: map[string]string{}}
	count, denied := 0, false
	for in.Scan() {
		line := in.Text()
		switch {
		case strings.HasPrefix(line, first+"="):
			r.parse(line, tail)
			r.name, r.err = r.fields[first], nil
			if err := each(&r); err != nil {
				return err
			}
			if r.err != nil {
				return r.err
			}
			count++
		case nobody != "" && strings.Contains(line, nobody):
			denied = true
		case count == 0 && strings.TrimSpace(line) != "":
			return fmt.Errorf("want %s=, not %q", first, shorten(line))
		}
	}
	if err := in.Err(); err != nil {
		return err
	}
	if count == 0 && !denied {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// parse splits a line at its spaces. A word that is no field belongs to the one before it (OS=Linux
// 6.12). From the first field of the tail on, values are texts for people, and each goes on until
// the next field of the tail.
func (r *record) parse(line string, tail []string) {
	clear(r.fields)
	head, rest := line, ""
	if at := nextField(line, tail); at >= 0 {
		head, rest = line[:at], line[at:]
	}
	key := ""
	for word := range strings.FieldsSeq(head) {
		name, value, is := strings.Cut(word, "=")
		if is {
			key = name
			r.fields[key] = value
		} else if key != "" {
			r.fields[key] += " " + word
		}
	}
	for rest != "" {
		key, text, _ := strings.Cut(strings.TrimLeft(rest, " "), "=")
		tail = tail[slices.Index(tail, key)+1:] // the fields have an order
		end := len(text)
		if at := nextField(text, tail); at >= 0 {
			end = at
		}
		if key == "Reason" {
			end = endOfReason(text, tail, end)
		}
		r.fields[key], rest = strings.TrimSpace(text[:end]), text[end:]
	}
}

// nextField is where the first of the fields begins; -1 where there is none.
func nextField(text string, keys []string) int {
	at := -1
	for _, k := range keys {
		if i := strings.Index(text, " "+k+"="); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	return at
}

// endOfReason: a reason ends with its user and time, "[root@1795393122]", and whoever wrote it may
// have written the name of a field.
func endOfReason(text string, tail []string, otherwise int) int {
	for from := 0; ; {
		i := strings.IndexByte(text[from:], ']')
		if i < 0 {
			return otherwise
		}
		from += i + 1
		open := strings.LastIndex(text[:from], "[")
		if open < 0 {
			continue
		}
		_, at, is := strings.Cut(text[open+1:from-1], "@")
		if !is || at == "" || strings.Trim(at, "0123456789") != "" {
			continue
		}
		rest := strings.TrimLeft(text[from:], " ")
		if rest == "" {
			return from
		}
		if nextField(" "+rest, tail) == 0 {
			return from
		}
	}
}

func (r *record) fault(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: "+format, append([]any{r.name}, args...)...)
	}
}

// must is a field that all records have.
func (r *record) must(key string) string {
	value, is := r.fields[key]
	if !is {
		r.fault("there is no %s in it", key)
	}
	return value
}

// word is must, and empty where Slurm has nothing to say.
func (r *record) word(key string) string { return known(r.must(key)) }

func (r *record) readNumber(key string) int64 {
	text := r.must(key)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		r.fault("cannot read %s=%q", key, shorten(text))
	}
	return n
}

// time: SLURM_TIME_FORMAT=%s makes it seconds since 1970.
func (r *record) time(key string) slurm.Time {
	text := r.must(key)
	if text == "None" || text == "Unknown" || text == none {
		return 0
	}
	return slurm.Time(r.readNumber(key))
}
