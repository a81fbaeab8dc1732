package cgroup

import (
	"bytes"
	"math"
)

// The parsers below take what they know and pass over the rest: every kernel adds lines.

// single reads a file with one number. A limit that is not set is "max", and stays unknown.
func single(q Quantity) func(*Usage, []byte) {
	return func(u *Usage, text []byte) {
		if value, valid := number(bytes.TrimSpace(text)); valid {
			u.setValue(q, value)
		}
	}
}

// keyed reads lines of a name and a number.
func keyed(wanted map[string]Quantity) func(*Usage, []byte) {
	return func(u *Usage, text []byte) {
		for line := range bytes.Lines(text) {
			name, rest, _ := bytes.Cut(line, []byte{' '})
			if q, known := wanted[string(name)]; known {
				if value, valid := number(bytes.TrimSpace(rest)); valid {
					u.setValue(q, value)
				}
			}
		}
	}
}

var cpuStat = keyed(map[string]Quantity{
	"usage_usec": CPUTime, "user_usec": CPUUser, "system_usec": CPUSystem,
	"nr_periods": QuotaPeriods, "nr_throttled": ThrottledPeriods, "throttled_usec": ThrottledTime,
})

// readCPUStat: a cgroup without a quota has these three numbers too, which stay zero.
func readCPUStat(u *Usage, text []byte) {
	cpuStat(u, text)
	if periods, _ := u.Get(QuotaPeriods); periods == 0 {
		u.known &^= 1<<QuotaPeriods | 1<<ThrottledPeriods | 1<<ThrottledTime
	}
}

// pressure reads "some avg10=0.00 avg60=0.00 avg300=0.00 total=0", and the same with "full"
// (Documentation/accounting/psi.rst).
func pressure(some, full Quantity) func(*Usage, []byte) {
	return func(u *Usage, text []byte) {
		for line := range bytes.Lines(text) {
			name, rest, _ := bytes.Cut(line, []byte{' '})
			total, found := field(rest, "total=")
			switch {
			case !found:
			case string(name) == "some":
				u.setValue(some, total)
			case string(name) == "full":
				u.setValue(full, total)
			}
		}
	}
}

// ioFields are the names in io.stat of the quantities from ReadBytes on.
var ioFields = [ioQuantities]string{"rbytes=", "wbytes=", "rios=", "wios="}

// readIOStat reads lines such as "8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 …". One
// without these numbers belongs to a device that was not used yet.
func readIOStat(u *Usage, text []byte) {
	u.disks = u.disks[:0]
	for line := range bytes.Lines(text) {
		name, rest, _ := bytes.Cut(line, []byte{' '})
		device, valid := deviceNumber(name)
		if !valid || u.hasDisk(device) {
			continue
		}
		d, whole := disk{number: device}, true
		for i, prefix := range ioFields {
			var found bool
			d.values[i], found = field(rest, prefix)
			whole = whole && found
		}
		if whole {
			u.disks = append(u.disks, d)
		}
	}
	u.sumDisks()
}

func (u *Usage) hasDisk(device uint64) bool {
	for _, d := range u.disks {
		if d.number == device {
			return true
		}
	}
	return false
}

// deviceNumber reads "8:16".
func deviceNumber(text []byte) (uint64, bool) {
	left, right, found := bytes.Cut(text, []byte{':'})
	major, valid := number(left)
	minor, validToo := number(right)
	return major<<32 | minor, found && valid && validToo && major <= math.MaxUint32 && minor <= math.MaxUint32
}

// field finds the number behind a prefix among fields that blanks separate.
func field(text []byte, prefix string) (uint64, bool) {
	for one := range bytes.FieldsSeq(text) {
		if value, found := bytes.CutPrefix(one, []byte(prefix)); found {
			return number(value)
		}
	}
	return 0, false
}

// number reads a decimal number of 63 bits: sums of some of them are no less than each.
func number(text []byte) (uint64, bool) {
	if len(text) == 0 || len(text) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + uint64(c-'0')
	}
	return n, n <= math.MaxInt64
}
