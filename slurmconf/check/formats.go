package check

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// What Slurm takes for a value, by its src/common/parse_time.c, read_config.c and
// cpu_frequency.c, and src/slurmctld/licenses.c.

const (
	timeOfPeriods = `0*[1-9]\d*|\d+:\d+(:\d+)?|\d+-\d+(:\d+){0,2}`
	exitCodes     = `\d{1,3}(-\d{1,3})?`
)

// timespec is a time in seconds as Slurm counts it: with integers of 32 bits, which
// overflow.
func timespec(value string) (seconds int32, ok bool) {
	switch strings.ToUpper(value) {
	case "-1", "INFINITE", "UNLIMITED":
		return -1, true
	}
	if !plausible(value) {
		return 0, false
	}
	days, rest, hasDays := strings.Cut(value, "-")
	if !hasDays {
		days, rest = "", value
	}
	var n [3]int32
	for i, part := range strings.SplitN(rest, ":", 3) {
		if part == "" {
			break
		}
		n[i] = integer(part)
	}
	switch {
	case hasDays:
		return integer(days)*86400 + n[0]*3600 + n[1]*60 + n[2], true
	case strings.Count(rest, ":") == 2:
		return n[0]*3600 + n[1]*60 + n[2], true
	default:
		return n[0]*60 + n[1], true
	}
}

// plausible: at most one dash, before all colons, and enough numbers for them.
func plausible(value string) bool {
	if value == "" || strings.Trim(value, "0123456789-:") != "" {
		return false
	}
	numbers := len(strings.FieldsFunc(value, func(r rune) bool { return r == '-' || r == ':' }))
	dashes, colons := strings.Count(value, "-"), strings.Count(value, ":")
	switch {
	case numbers == 0, dashes > 1, colons > 2, dashes > 0 && colons > 0 && strings.Index(value, ":") < strings.Index(value, "-"):
		return false
	case colons == 0:
		return true
	default:
		return numbers >= dashes+colons+1
	}
}

// integer is what sscanf(3) makes of digits for %d.
func integer(digits string) int32 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		n = math.MaxInt64
	}
	if digits == "" {
		return 0
	}
	return int32(n)
}

func seconds(value string) bool {
	_, ok := timespec(value)
	return ok
}

func minutes(value string) bool {
	n, ok := timespec(value)
	return ok && (n == -1 || roundUp(n) >= 0)
}

func positiveMinutes(value string) bool {
	n, ok := timespec(value)
	return ok && n != -1 && roundUp(n) >= 1
}

func roundUp(seconds int32) int32 { return (seconds + 59) / 60 }

// seconds32 is a number at the beginning, or none: "soon" is 0.
func seconds32(value string) bool {
	digits := leading(`[+]?\d+`).FindString(value)
	if digits == "" {
		return !strings.HasPrefix(value, "-")
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(digits, "+"), 10, 64)
	return err == nil && n <= math.MaxUint32
}

// ports: one, or a first and a greater last one.
func ports(value string) bool {
	m := leading(`[\s]*[+]?(\d+)(-\s*[+]?(\d+))?`).FindStringSubmatch(value)
	if m == nil || m[2] == "" && m[0] != value {
		return false
	}
	first, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || first <= 0 {
		return false
	}
	if m[2] == "" {
		return uint16(first) > 0
	}
	last, err := strconv.ParseInt(m[3], 10, 64)
	return err == nil && last > first && first <= math.MaxUint16
}

// licenses: a semicolon separates too, and a number can be left out.
func licenses(value string) bool {
	for one := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ';' || r == ',' }) {
		name, number := one, "0"
		if i := strings.IndexAny(one, ":="); i >= 0 {
			name, number = one[:i], one[i+1:]
		}
		if strings.ContainsAny(name, " \t\n\v\f\r") || !leading(`\s*[+]?\d*$`).MatchString(number) {
			return false
		}
	}
	return true
}

// governors says whether a value begins as a CPU governor does: the first letters are enough.
func governors(value string) bool {
	return compiled(`(?i)(co|perf|pow|user|onde|sche).*`).MatchString(value)
}

// leading matches at the beginning.
func leading(pattern string) *regexp.Regexp {
	if r, ok := leadings.Load(pattern); ok {
		return r.(*regexp.Regexp)
	}
	r, _ := leadings.LoadOrStore(pattern, regexp.MustCompile("^"+pattern))
	return r.(*regexp.Regexp)
}

var leadings sync.Map
