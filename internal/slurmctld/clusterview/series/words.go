package series

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// stateOf is the one state under which a node counts for its features. A node that cannot take jobs
// counts under why.
func stateOf(n *slurm.Node) string {
	switch {
	case n.Is("DOWN", "FUTURE", "ERROR", "UNKNOWN"):
		return strings.ToLower(n.State.Base())
	case n.Is("DRAIN") && n.Allocated():
		return "draining"
	case n.Is("DRAIN"):
		return "drained"
	case n.Is("FAIL"):
		return "fail"
	case n.Is("POWERING_DOWN"):
		return "powering_down"
	case n.Is("POWERED_DOWN"):
		return "powered_down"
	case n.Is("POWERING_UP"):
		return "powering_up"
	case n.Is("NOT_RESPONDING"):
		return "not_responding"
	case n.Is("MAINTENANCE"):
		return "maintenance"
	case n.Is("RESERVED"):
		return "reserved"
	case n.Is("PLANNED") && n.Is("IDLE"):
		return "planned"
	}
	return strings.ToLower(n.State.Base())
}

// drainKinds are kinds of reasons by how words of theirs begin, in lower case. Slurm's are in node_mgr.c,
// job_mgr.c, proc_req.c, ping_nodes.c and power_save.c of slurmctld, and in slurmd and slurmstepd.
var drainKinds = []struct {
	kind  string
	words []string
}{
	{"slurmlet", reasons.Beginnings()},
	{"not_responding", []string{"not responding", "unexpectedly rebooted"}},
	{"kill_task", []string{"kill task failed"}},
	{"prolog_epilog", []string{"prolog", "epilog"}},
	{"registration", []string{
		"low ", "gres", "corespec differ", "bad core count", "reported active features",
		"failed to parse dynamic_conf", "failed to set topology", "restrictedcorespergpu",
	}},
	{"health_check", []string{"nhc", "health", "unhealthy"}},
	{"reboot", []string{"reboot"}},
	{"power", []string{"resumetimeout", "power"}},
	{"job", []string{"duplicate jobid", "batch job complete failure", "switch_g_job_postfini"}},
	{"disk", []string{"slurmdspooldir is full"}},
	{"none", []string{""}},
}

// drainKind never has a reason's text, which anybody may have written.
func drainKind(reason string) string {
	reason = strings.ToLower(reason)
	for _, k := range drainKinds {
		for _, word := range k.words {
			if reason == word || word != "" && beginsWord(reason, word) {
				return k.kind
			}
		}
	}
	return otherLabel
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
