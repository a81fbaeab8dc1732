package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// canonical brings a value of the file, or of sacctmgr's answer, into the form in which two are compared. An empty one is
// that of no limit.
func (a *Attribute) canonical(value string) (string, error) {
	value = strings.TrimSpace(value)
	if value == "" || value == "-1" && a.form != text {
		return "", nil
	}
	switch a.form {
	case share:
		if strings.EqualFold(value, "parent") {
			return "parent", nil
		}
		return whole(value, "a whole number, or parent")
	case number:
		return whole(value, "a whole number, or -1 for no limit")
	case fraction:
		f, err := strconv.ParseFloat(value, 64)
		if err != nil || f < 0 || math.IsInf(f, 0) || math.IsNaN(f) {
			return "", want("a number such as 0.5, or -1 for no limit")
		}
		return strconv.FormatFloat(math.Round(f*1e6)/1e6, 'f', -1, 64), nil
	case minutes:
		s, err := duration(value, 60)
		return strconv.FormatInt((s+59)/60, 10), err
	case seconds:
		s, err := duration(value, 1)
		return strconv.FormatInt(s, 10), err
	case tres:
		return resources(value)
	case list:
		return sorted(value)
	case flags, word:
		return a.known(value)
	}
	return plain(value)
}

type want string

func (w want) Error() string { return string(w) }

// mostNumber is the largest that slurmdbd keeps.
const mostNumber = math.MaxUint32 - 2

func whole(value, wanted string) (string, error) {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil || n > mostNumber {
		return "", want(wanted)
	}
	return strconv.FormatUint(n, 10), nil
}

// duration reads Slurm's times: a number of units, minutes:seconds, hours:minutes:seconds, and days-hours with what
// follows. It returns seconds.
func duration(value string, unit int64) (int64, error) {
	const wanted = want("a time such as 90, 1:30:00 or 2-12:00:00, or -1 for no limit")
	days, rest, withDays := strings.Cut(value, "-")
	if !withDays {
		days, rest = "0", value
	}
	fields := strings.Split(rest, ":")
	weights := map[bool]map[int][]int64{
		true:  {1: {3600}, 2: {3600, 60}, 3: {3600, 60, 1}},
		false: {1: {unit}, 2: {60, 1}, 3: {3600, 60, 1}},
	}[withDays][len(fields)]
	if weights == nil {
		return 0, wanted
	}
	d, err := strconv.ParseUint(days, 10, 20)
	total := int64(d) * 86400
	for i, field := range fields {
		n, fault := strconv.ParseUint(field, 10, 31)
		err = cmp.Or(err, fault)
		total += int64(n) * weights[i]
	}
	if err != nil || total/60 > mostNumber {
		return 0, wanted
	}
	return total, nil
}

// inMegabytes says whether slurmdbd keeps a TRES in megabytes.
func inMegabytes(name string) bool {
	return name == "mem" || name == "vmem" || strings.HasPrefix(name, "bb/") || strings.HasPrefix(name, "fs/")
}

// resources reads a list of TRES. One of -1 has no limit, and is left out.
func resources(value string) (string, error) {
	const wanted = want("TRES such as cpu=4,mem=16G,gres/gpu=2")
	all := map[string]string{}
	for one := range strings.SplitSeq(value, ",") {
		name, amount, found := strings.Cut(strings.TrimSpace(one), "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if !found || !isTRES(name) || all[name] != "" {
			return "", wanted
		}
		if amount = strings.TrimSpace(amount); amount == "-1" {
			continue
		}
		n, err := count(amount, inMegabytes(name))
		if err != nil {
			return "", wanted
		}
		all[name] = strconv.FormatInt(n, 10)
	}
	return joined(all), nil
}

func isTRES(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("/:_-.", c) {
			return false
		}
	}
	return name != ""
}

// units are those of a count: of megabytes, M is one.
const units = "KMGTP"

// count reads a number with a unit. Of megabytes, a part of one is rounded down, as sacctmgr does.
func count(amount string, megabytes bool) (int64, error) {
	power := 0
	if amount != "" {
		power = strings.IndexByte(units, amount[len(amount)-1]&^0x20) + 1
	}
	if power > 0 {
		amount = amount[:len(amount)-1]
		if megabytes {
			power -= 2
		}
	}
	f, err := strconv.ParseFloat(amount, 64)
	f *= math.Pow(1024, float64(power))
	if err != nil || !(f >= 0 && f < 1<<53) {
		return 0, want("a number")
	}
	return int64(f), nil
}

// split reads what joined has written.
func split(canonical string) map[string]string {
	all := map[string]string{}
	for one := range strings.SplitSeq(canonical, ",") {
		if name, amount, found := strings.Cut(one, "="); found {
			all[name] = amount
		}
	}
	return all
}

func joined(all map[string]string) string {
	var each []string
	for name, amount := range all {
		each = append(each, name+"="+amount)
	}
	slices.Sort(each)
	return strings.Join(each, ",")
}

// sorted reads a list of names.
func sorted(value string) (string, error) {
	var all []string
	for one := range strings.SplitSeq(value, ",") {
		one = strings.ToLower(strings.TrimSpace(one))
		if !isName(one) {
			return "", want("names separated by commas")
		}
		all = append(all, one)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ","), nil
}

// isName says whether sacctmgr's commands can name it.
func isName(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("_-.@+", c) {
			return false
		}
	}
	return name != "" && len(name) <= 255 && !strings.ContainsRune("-+.@", rune(name[0]))
}

func (a *Attribute) known(value string) (string, error) {
	var all []string
	for one := range strings.SplitSeq(value, ",") {
		one = strings.TrimSpace(one)
		if !slices.ContainsFunc(a.words, func(w string) bool { return strings.EqualFold(w, one) }) || a.form == word && all != nil {
			return "", want(map[form]string{word: "one of ", flags: "some of "}[a.form] + strings.Join(a.words, ", "))
		}
		all = append(all, strings.ToLower(one))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ","), nil
}

// plain is a text that a command's quotes can hold. slurmdbd keeps descriptions in small letters.
func plain(value string) (string, error) {
	unfit := func(c rune) bool { return c < ' ' || c == 0x7f || strings.ContainsRune(`"'\|`, c) }
	if strings.ContainsFunc(value, unfit) || len(value) > 1024 {
		return "", want(`a text of one line and at most 1024 bytes, without ", ', \ and |`)
	}
	return strings.ToLower(value), nil
}

// spelled is a canonical value as "set" takes it.
func (a *Attribute) spelled(value string) string {
	switch a.form {
	case minutes:
		n, _ := strconv.ParseInt(value, 10, 64)
		return fmt.Sprintf("%d-%02d:%02d:00", n/1440, n/60%24, n%60)
	case text:
		return `"` + value + `"`
	}
	return value
}
