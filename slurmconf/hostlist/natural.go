package hostlist

// compareNatural orders names as Slurm does: numbers in them by value, n2 before
// n10, unless one begins with a zero; then digit by digit.
func compareNatural(a, b string) int {
	for i := 0; ; i++ {
		ca, cb := at(a, i), at(b, i)
		if isDigit(ca) && isDigit(cb) {
			if c := compareDigits(a[i:], b[i:]); c != 0 {
				return c
			}
		}
		switch {
		case i >= len(a) && i >= len(b):
			return 0
		case ca != cb:
			return int(ca) - int(cb)
		}
	}
}

// compareDigits compares the digits that both begin with.
func compareDigits(a, b string) int {
	first, byDigit := 0, a[0] == '0' || b[0] == '0'
	for i := 0; ; i++ {
		da, db := at(a, i), at(b, i)
		switch {
		case !isDigit(da) && !isDigit(db):
			return first
		case !isDigit(da):
			return -1
		case !isDigit(db):
			return 1
		case da != db && first == 0:
			first = int(da) - int(db)
		}
		if byDigit && first != 0 {
			return first
		}
	}
}

// at is the byte at i, and 0 behind the end, as in C.
func at(s string, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}
