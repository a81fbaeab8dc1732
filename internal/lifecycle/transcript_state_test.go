package lifecycle

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
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
	revision := func(e *conf.Revision) string {
		if e == nil {
			return ""
		}
		return strings.TrimSpace(formatFields(reflect.ValueOf(*e), reflect.ValueOf(conf.Revision{})))
	}
	result := ""
	if l.Conf.Resolved > 0 {
		result = fmt.Sprintf("%d %s", l.Conf.Resolved, cmp.Or(l.Conf.Result, "is live"))
	}
	taken := ""
	if l.Conf.Outcomes.Taken > 0 {
		taken = fmt.Sprintf("%d, read at %s", l.Conf.Outcomes.Taken, formatTime(l.Conf.Outcomes.ReadAt))
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
		{"record differs", l.RecordDiffers},
		{"main", number(l.Main)},
		{"killed", yes(l.Killed)},
		{"to be told", []string{"", "by SIGHUP", "by a restart"}[l.unread]},
		{"starts", number(l.Starts)},
		{"size", strings.TrimSpace(formatAllocation(nodesize.Allocation{Size: l.Size, Traits: l.Traits, Grace: l.Grace}))},
		{"seen by slurmctld", yes(l.Seen)},
		{"in service", yes(l.Registers && l.InService())},
		{"stage", stageWords[l.Stage]},
		{"done for", stageWords[l.Acted]},
		{"left", l.Left},
		{"exit status", number(l.Code)},
		{"deadline", deadline},
		{"hastened by", l.HastenedBy},
		{"deadlines", fmt.Sprintf("requeue %v, fail %v, exit %v", d.Requeue, d.Fail, d.Exit)},
		{"reload", l.Conf.Activity.String()},
		{"live", formatSet(l.Conf.Live)},
		{"good", formatSet(l.Conf.Good)},
		{"next", revision(l.Conf.Next)},
		{"trying", revision(l.Conf.Trying)},
		{"refused", revision(l.Conf.Refused)},
		{"because", strings.ReplaceAll(l.Conf.Why, "\n", "; ")},
		{"not restored", l.Conf.NotRestored},
		{"result of request", result},
		{"taken", taken},
		{"refused before slurmctld had it", number(l.Conf.Outcomes.Refused)},
		{"rolled back", number(l.Conf.Outcomes.RolledBack)},
	}
}
