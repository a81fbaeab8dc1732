package webpage

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// mostText and mostTitle are the most characters of a text that somebody has written, in a table
// and in a node's square.
const mostText, mostTitle = 160, 48

// plain makes a text harmless for its surroundings: html/template escapes what HTML means, and
// this takes what changes the order or the place of characters, and what is too long.
func plain(text string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		if r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) ||
			unicode.Is(unicode.Zp, r) || unicode.Is(unicode.Co, r) {
			r = '�'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// count is a number with its thousands apart.
func count(n int) string {
	digits := fmt.Sprint(n)
	if n < 0 {
		return digits
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + " " + digits[i:] // narrow, and no place to break
	}
	return digits
}

// size is bytes in the words of slurm.conf's people.
func size(bytes int64) string {
	value, unit := float64(bytes), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if value < 10 && unit != "B" {
		return fmt.Sprintf("%.1f %s", value, unit)
	}
	return fmt.Sprintf("%.0f %s", value, unit)
}

// span is a duration as squeue writes it, and shorter.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %02d", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// Moment is a time for <time>: in UTC, and for machines.
type Moment struct{ Text, Machine string }

// moment is short where it is today.
func moment(at, now time.Time) Moment {
	if at.IsZero() {
		return Moment{}
	}
	at, now = at.UTC(), now.UTC()
	layout := "2006-01-02 15:04"
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		layout = "15:04:05"
	}
	return Moment{at.Format(layout), at.Format(time.RFC3339)}
}
