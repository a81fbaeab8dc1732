package lifecycle

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// changes are the lines with what is different in a state.
func changes(before, after State) string {
	text := ""
	was, now := view(before), view(after)
	for i := range now {
		if was[i].value != now[i].value {
			text += fmt.Sprintf("  %s: %s\n", now[i].name, cmp.Or(now[i].value, "-"))
		}
	}
	return text
}

// view is a state in words, without its counters.
func view(l State) []struct{ name, value string } {
	type field = struct{ name, value string }
	yes := func(is bool) string {
		if is {
			return "yes"
		}
		return ""
	}
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	revision := func(e *Revision) string {
		if e == nil {
			return ""
		}
		return strings.TrimSpace(formatFields(reflect.ValueOf(*e), reflect.ValueOf(Revision{})))
	}
	result := ""
	if l.Resolved > 0 {
		result = fmt.Sprintf("%d %s", l.Resolved, cmp.Or(l.Result, "is live"))
	}
	taken := ""
	if l.Outcomes.Taken > 0 {
		taken = fmt.Sprintf("%d, read at %s", l.Outcomes.Taken, formatTime(l.Outcomes.ReadAt))
	}
	deadline := ""
	if l.Deadline.Bounded() {
		deadline = formatTime(l.Deadline.Value)
	}
	d := l.Deadlines
	return []field{
		{"phase", string(l.Phase)},
		{"doing", l.Activity.String()},
		{"reason", l.Reason},
		{"held", l.Unstartable},
		{"fault", l.Fault},
		{"refusal", l.Refusal},
		{"unlike", l.Unlike},
		{"main", number(l.Main)},
		{"killed", yes(l.killed)},
		{"to be told", []string{"", "by SIGHUP", "by a restart"}[l.unread]},
		{"starts", number(l.Starts)},
		{"size", strings.TrimSpace(formatAllocation(nodesize.Allocation{Size: l.Size, Traits: l.Traits, Grace: l.Grace}))},
		{"seen by slurmctld", yes(l.seen)},
		{"in service", yes(l.Registers && l.inService())},
		{"stage", stageWords[l.stage]},
		{"done for", stageWords[l.acted]},
		{"left", l.Left},
		{"exit status", number(l.Code)},
		{"deadline", deadline},
		{"hastened by", l.HastenedBy},
		{"deadlines", fmt.Sprintf("requeue %v, fail %v, exit %v", d.Requeue, d.Fail, d.Exit)},
		{"reload", l.ConfActivity.String()},
		{"live", formatSet(l.Live)},
		{"good", formatSet(l.Good)},
		{"next", revision(l.Next)},
		{"trying", revision(l.trying)},
		{"refused", revision(l.Refused)},
		{"because", strings.ReplaceAll(l.Why, "\n", "; ")},
		{"not restored", l.NotRestored},
		{"result of request", result},
		{"taken", taken},
		{"refused before slurmctld had it", number(l.Outcomes.Refused)},
		{"rolled back", number(l.Outcomes.RolledBack)},
	}
}
