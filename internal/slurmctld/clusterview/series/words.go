package series

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// stateOf is the one state under which a node counts for its features. A node that cannot take jobs
// counts under why.
func stateOf(n *clusterview.Node) string {
	switch flagged := func(flag string) bool { return slices.Contains(n.Flags, flag) }; {
	case n.State == "DOWN", n.State == "FUTURE", n.State == "ERROR", n.State == "UNKNOWN":
		return strings.ToLower(n.State)
	case flagged("DRAIN") && busy(n):
		return "draining"
	case flagged("DRAIN"):
		return "drained"
	case flagged("FAIL"):
		return "fail"
	case flagged("POWERING_DOWN"):
		return "powering_down"
	case flagged("POWERED_DOWN"):
		return "powered_down"
	case flagged("POWERING_UP"):
		return "powering_up"
	case flagged("NOT_RESPONDING"):
		return "not_responding"
	case flagged("MAINTENANCE"):
		return "maintenance"
	case flagged("RESERVED"):
		return "reserved"
	case flagged("PLANNED") && n.State == "IDLE":
		return "planned"
	}
	return strings.ToLower(n.State)
}

// drainKinds are kinds of reasons by how words of theirs begin, in lower case. Slurm's are in node_mgr.c,
// job_mgr.c, proc_req.c, ping_nodes.c and power_save.c of slurmctld, and in slurmd and slurmstepd.
var drainKinds = []struct {
	kind  string
	words []string
}{
	{"slurmlet", []string{reasons.ByAgent, reasons.ByCommand, reasons.ByKubernetes, reasons.ByDisk}},
	{"not_responding", []string{"not responding", "unexpectedly rebooted"}},
	{"kill_task", []string{"kill task failed"}},
	{"prolog_epilog", []string{"prolog", "epilog"}},
	{"registration", []string{"low ", "gres", "corespec differ", "bad core count", "reported active features", "failed to parse dynamic_conf", "failed to set topology", "restrictedcorespergpu"}},
	{"health_check", []string{"nhc", "health", "unhealthy"}},
	{"reboot", []string{"reboot"}},
	{"power", []string{"resumetimeout", "power"}},
	{"job", []string{"duplicate jobid", "batch job complete failure", "switch_g_job_postfini"}},
	{"disk", []string{"slurmdspooldir is full"}},
	{"none", []string{""}},
}

// drainKind never tells a reason's text, which anybody may have written.
func drainKind(reason string) string {
	reason = strings.ToLower(reason)
	for _, k := range drainKinds {
		for _, word := range k.words {
			if reason == word || word != "" && beginsWord(reason, word) {
				return k.kind
			}
		}
	}
	return other
}

// beginsWord says whether a word of text begins so: "upgrade in progress" has no "gres".
func beginsWord(text, begin string) bool {
	for end := 0; ; {
		i := strings.Index(text[end:], begin)
		if i < 0 {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(text[:end+i]) // no letter where there is none
		if !unicode.IsLetter(before) && !unicode.IsDigit(before) {
			return true
		}
		end += i + len(begin)
	}
}
