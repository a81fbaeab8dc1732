package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// rule is what Slurm takes for a key that its parser reads as a mere string or
// number. The sources are Slurm's src/common/read_config.c, log.c and node_conf.c,
// and slurm.conf(5).
type rule struct {
	// words are the values, separated by spaces, or in a list by commas. Capitals
	// do not matter.
	words string
	list  bool
	// pattern matches further values, of what want says.
	pattern, want string
	// severity is Warning where Slurm goes on with another value.
	severity slurmconf.Severity
}

const (
	levels     = "quiet fatal error info verbose debug debug2 debug3 debug4 debug5"
	limits     = "ALL NONE AS CORE CPU DATA FSIZE MEMLOCK NOFILE NPROC RSS STACK"
	switches   = "yes no up down true false 1 0"
	timeOfJobs = `\d+|\d+:\d+(:\d+)?|\d+-\d+(:\d+){0,2}|-1`
	timeWant   = "minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or days-hours:minutes:seconds"
)

var rules = map[string]rule{
	"slurmctlddebug":       {words: levels, pattern: `\d`, want: "0 to 9"},
	"slurmddebug":          {words: levels, pattern: `\d`, want: "0 to 9"},
	"slurmctldsyslogdebug": {words: levels, pattern: `\d`, want: "0 to 9"},
	"slurmdsyslogdebug":    {words: levels, pattern: `\d`, want: "0 to 9"},
	"enforcepartlimits":    {words: "all any " + switches},
	"selecttypeparameters": {list: true, words: "CR_CPU CR_CPU_Memory CR_Core CR_Core_Memory CR_Socket CR_Socket_Memory CR_Memory CR_ONE_TASK_PER_CORE " +
		"CR_NO_DIST_TOPO_BLOCK CR_CORE_DEFAULT_DIST_BLOCK CR_LLN CR_PACK_NODES LL_SHARED_GRES MULTIPLE_SHARING_GRES_PJ ENFORCE_BINDING_GRES ONE_TASK_PER_SHARING_GRES"},
	"preemptmode":   {list: true, words: "off cancel gang requeue suspend within priority"},
	"prologflags":   {list: true, words: "Alloc Contain DeferBatch ForceRequeueOnFail NoHold RunInJob Serial X11"},
	"reconfigflags": {list: true, words: "KeepPartInfo KeepPartState KeepPowerSaveSettings"},
	"debugflags": {list: true, words: "Accrue Agent AuditRPCs AuditTLS Backfill BackfillMap BurstBuffer cgroup ConMgr CPU_Bind CpuFrequency Data DBD_Agent DB_Archive DB_Assoc DB_Event DB_Job DB_QOS " +
		"DB_Query DB_Reservation DB_Resource DB_Step DB_TRES DB_Usage DB_WCKey Dependency Elasticsearch Energy Federation FrontEnd Gang GLOB_SILENCE Gres Hetjob Interconnect JAG JobAccountGather JobComp " +
		"JobContainer License Metrics MPI Namespace Net NetRaw Network NetworkRaw NodeFeatures NO_CONF_HASH Power PowerSave Priority Profile Protocol Reservation Route Sack Script SelectType Steps Switch TLS " +
		"thread threads TraceJobs Trigger Triggers WorkQ WorkQueue"},
	"propagateresourcelimits":       {list: true, words: limits},
	"propagateresourcelimitsexcept": {list: true, words: limits},
	"returntoservice":               {words: "0 1 2", severity: slurmconf.Warning},
	"privatedata":                   {list: true, words: "none all accounts cloud events jobs nodes partitions reservations usage users", severity: slurmconf.Warning},

	"partitionname state":         {words: "UP DOWN DRAIN INACTIVE"},
	"partitionname maxtime":       {words: "UNLIMITED INFINITE", pattern: timeOfJobs, want: timeWant},
	"partitionname defaulttime":   {words: "UNLIMITED INFINITE DEFAULT NONE", pattern: timeOfJobs, want: timeWant},
	"partitionname oversubscribe": {words: "NO EXCLUSIVE YES FORCE", pattern: `(?i)(YES|FORCE):\d+`, want: "YES:count or FORCE:count"},
	"nodename state":              {words: "UNKNOWN IDLE DOWN ALLOCATED ERROR MIXED FUTURE", pattern: `(?i)(CLOUD|DRAIN|FAIL|EXTERNAL).*`, want: "CLOUD, DRAIN, FAIL, FAILING or EXTERNAL"},
}

func ruleFor(kind slurmconf.Kind, record, key string) (rule, bool) {
	if kind != slurmconf.SlurmConf {
		return rule{}, false
	}
	r, ok := rules[strings.TrimSpace(strings.ToLower(record+" "+key))]
	return r, ok
}

func (r rule) judge(pair slurmconf.Pair) slurmconf.Findings {
	values, verb := []string{pair.Value}, "is"
	if r.list {
		values, verb = pair.List(), "has"
	}
	severity := r.severity
	if severity == 0 {
		severity = slurmconf.Error
	}
	var findings slurmconf.Findings
	for _, v := range values {
		if !r.allows(v) {
			findings = append(findings, slurmconf.Finding{Position: pair.Position(), Severity: severity, Rule: "value", What: fmt.Sprintf("%s %s %q", pair.Key, verb, v), Want: r.wants()})
		}
	}
	return findings
}

func (r rule) allows(value string) bool {
	words := strings.Fields(r.words)
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, value) }) ||
		r.pattern != "" && compiled(r.pattern).MatchString(value)
}

func (r rule) wants() string {
	want := strings.Join(strings.Fields(r.words), ", ")
	if r.pattern != "" {
		want += ", or " + r.want
	}
	return want
}

// compiled: a start of the agent pays for no pattern.
var patterns sync.Map

func compiled(pattern string) *regexp.Regexp {
	if r, ok := patterns.Load(pattern); ok {
		return r.(*regexp.Regexp)
	}
	r, _ := patterns.LoadOrStore(pattern, regexp.MustCompile("^(?:"+pattern+")$"))
	return r.(*regexp.Regexp)
}
