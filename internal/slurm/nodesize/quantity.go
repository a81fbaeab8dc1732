package nodesize

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseMillicores reads a limit of CPU time in thousandths of a CPU; an empty text is 0.
func ParseMillicores(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, errors.New("want a positive whole number of thousandths of a CPU")
	}
	return n, nil
}

// ParseBytes reads a number of bytes, also with Ki, Mi, Gi or Ti; an empty text is 0.
func ParseBytes(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	number, shift := text, 0
	for i, unit := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if n, found := strings.CutSuffix(text, unit); found {
			number, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return 0, errors.New("want a whole number of bytes, or one with Ki, Mi, Gi or Ti")
	}
	return n << shift, nil
}

// ParseGracePeriod reads a duration that is not negative.
func ParseGracePeriod(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errors.New("want a duration such as 30s or 10m")
	}
	return d, nil
}
