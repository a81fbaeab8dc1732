package clusterview

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// shareFields are the columns that sshare is asked for (sshare(1), --format).
var shareFields = []string{"Account", "User", "Partition", "RawShares", "NormShares", "RawUsage", "NormUsage", "EffectvUsage", "FairShare"}

// readShares reads the answer of sshare, which is empty where the cluster has no slurmdbd. Associations
// of a user with one partition are left out: the user has one Share in an account.
func readShares(from io.Reader) (all []Share, err error) {
	in := bufio.NewScanner(from)
	for in.Scan() {
		columns := strings.Split(in.Text(), "|")
		if len(columns) != len(shareFields) {
			return nil, fmt.Errorf("want %d columns of an association, not %q", len(shareFields), shorten(in.Text()))
		}
		if columns[2] != "" {
			continue
		}
		r := shareReader{columns: columns}
		one := Share{
			Account: strings.TrimSpace(columns[0]), User: columns[1], // the account's level is spaces before its name
			Shares: int64(r.readNumber(3)), NormShares: r.readNumber(4), RawUsage: r.readNumber(5),
			NormUsage: r.readNumber(6), EffectiveUsage: r.readNumber(7), FairShare: r.readNumber(8),
		}
		if r.err != nil {
			return nil, r.err
		}
		all = append(all, one)
	}
	return all, in.Err()
}

// shareReader keeps the first fault of an association's columns.
type shareReader struct {
	columns []string
	err     error
}

// readNumber is no number where sshare prints nothing, and 0 for shares that are the parent's.
func (r *shareReader) readNumber(column int) float64 {
	text := r.columns[column]
	switch text {
	case "":
		return math.NaN()
	case "parent":
		return 0
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("cannot read %s=%q of account %q", shareFields[column], shorten(text), shorten(r.columns[0]))
	}
	return n
}
