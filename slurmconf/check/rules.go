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
	// takes says what Slurm takes besides, to do something else than was meant.
	takes func(value string) bool
	// severity is Warning where Slurm goes on with another value.
	severity slurmconf.Severity
}

const (
	levels     = "quiet fatal error info verbose debug debug2 debug3 debug4 debug5"
	limits     = "ALL NONE AS CORE CPU DATA FSIZE MEMLOCK NOFILE NPROC RSS STACK"
	switches   = "yes no up down true false 1 0"
	timeOfJobs = `\d{1,7}|\d{1,7}:\d{1,2}|\d{1,5}:\d+:\d+|\d{1,4}-\d{1,5}(:\d{1,5}){0,2}|-1`
	timeWant   = "minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or days-hours:minutes:seconds"
	debugFlags = "Accrue Agent AuditRPCs AuditTLS@25.05 Backfill BackfillMap BurstBuffer cgroup ConMgr CPU_Bind " +
		"CpuFrequency Data DBD_Agent DB_Archive DB_Assoc DB_Event DB_Job DB_QOS " +
		"DB_Query DB_Reservation DB_Resource DB_Step DB_TRES DB_Usage DB_WCKey Dependency Elasticsearch Energy " +
		"Federation FrontEnd@-24.11 Gang GLOB_SILENCE Gres Hetjob Interconnect JAG JobAccountGather JobComp " +
		"JobContainer License Metrics@25.11 MPI Namespace@25.11 Net NetRaw Network NetworkRaw NodeFeatures " +
		"NO_CONF_HASH Power PowerSave Priority Profile Protocol Reservation Route Sack Script SelectType Steps Switch Task TLS " +
		"thread@26.05 threads@26.05 TraceJobs Trigger Triggers WorkQ WorkQueue"
	binding = "no none socket sockets ldom ldoms core cores thread threads off v verbose"
)

// A word with @25.05 is of that version and newer, one with @-24.11 of that and older.
var rules = map[string]rule{
	"slurmctlddebug":       level,
	"slurmddebug":          level,
	"slurmctldsyslogdebug": level,
	"slurmdsyslogdebug":    level,
	"enforcepartlimits":    {words: "all any " + switches},
	"selecttypeparameters": {
		list: true,
		words: "CR_CPU CR_CPU_Memory CR_Core CR_Core_Memory CR_Socket CR_Socket_Memory CR_Memory CR_ONE_TASK_PER_CORE " +
			"CR_NO_DIST_TOPO_BLOCK@26.05 CR_CORE_DEFAULT_DIST_BLOCK CR_LLN CR_PACK_NODES LL_SHARED_GRES " +
			"MULTIPLE_SHARING_GRES_PJ ENFORCE_BINDING_GRES ONE_TASK_PER_SHARING_GRES",
	},
	"preemptmode":   {list: true, words: "off cancel gang requeue suspend within priority@25.05", takes: oneOf("on", "cluster")},
	"prologflags":   {list: true, words: "Alloc Contain DeferBatch ForceRequeueOnFail NoHold RunInJob Serial X11"},
	"reconfigflags": {list: true, words: "KeepNodeStateFuture@-24.11 KeepPartInfo KeepPartState KeepPowerSaveSettings"},
	"debugflags":    {list: true, words: debugFlags},

	"propagateresourcelimits":       {list: true, words: limits},
	"propagateresourcelimitsexcept": {list: true, words: limits},
	"returntoservice":               {words: "0 1 2", severity: slurmconf.Warning},
	"privatedata": {
		list:  true,
		words: "none all accounts cloud events jobs nodes partitions reservations usage users", severity: slurmconf.Warning,
	},
	"taskpluginparam":          taskParameters,
	"accountingstorageenforce": {list: true, words: "associations limits nojobs nosteps qos safe wckeys all 1 2"},
	"healthchecknodestate": {
		list:  true,
		words: "ANY ALLOC CYCLE IDLE MIXED NONDRAINED_IDLE START_ONLY@25.11 REBOOT_ONLY@26.05", severity: slurmconf.Warning,
	},
	"cpufreqdef": {
		words: "Conservative OnDemand Performance PowerSave SchedUtil", takes: governors,
		severity: slurmconf.Warning,
	},
	"cpufreqgovernors": {
		list: true, words: "Conservative OnDemand Performance PowerSave SchedUtil UserSpace",
		takes: governors, severity: slurmconf.Warning,
	},
	"priorityusageresetperiod": {words: "NONE NOW DAILY WEEKLY MONTHLY QUARTERLY YEARLY"},
	"prioritydecayhalflife":    {words: "UNLIMITED INFINITE", pattern: timeOfJobs, want: timeWant, takes: minutes},
	"prioritymaxage":           {words: "UNLIMITED INFINITE", pattern: timeOfJobs, want: timeWant, takes: minutes},
	"prioritycalcperiod":       {pattern: timeOfPeriods, want: timeWant, takes: positiveMinutes},
	"preemptexempttime":        {words: "UNLIMITED INFINITE", pattern: timeOfJobs, want: timeWant, takes: seconds},
	"slurmctldport":            {pattern: `[1-9]\d{0,4}`, want: "a port, or the first and the last of some: 6817-6820", takes: ports},
	"licenses": {
		pattern: `([^\s:=;,]+([:=]\d+)?(,|$))*`,
		want:    "name:number, with a comma and no white space between them", takes: licenses,
	},
	"requeueexit":     {list: true, pattern: exitCodes, want: "numbers from 0 to 255, and ranges of them", severity: slurmconf.Warning},
	"requeueexithold": {list: true, pattern: exitCodes, want: "numbers from 0 to 255, and ranges of them", severity: slurmconf.Warning},
	"bcastexclude":    {list: true, words: "none", pattern: `/.*`, want: "absolute paths"},
	"suspendtime":     {words: "NONE INFINITE", pattern: `-1|\d{1,9}`, want: "seconds, at most 999999999", takes: seconds32},
	"suspendexcstates": {
		list: true,
		words: "CLOUD DOWN DRAIN DYNAMIC_FUTURE DYNAMIC_NORM FAIL INVALID_REG MAINTENANCE NOT_RESPONDING PERFCTRS " +
			"PLANNED RESERVED", severity: slurmconf.Warning,
	},

	"partitionname state":         {words: "UP DOWN DRAIN INACTIVE", takes: matches(`(?i)(UP|DOWN|DRAIN|INACTIVE).*`)},
	"partitionname maxtime":       {words: "UNLIMITED INFINITE", pattern: timeOfJobs, want: timeWant, takes: minutes},
	"partitionname defaulttime":   {words: "UNLIMITED INFINITE", pattern: timeOfJobs, want: timeWant, takes: minutes},
	"partitionname oversubscribe": sharing,
	"partitionname shared":        sharing,
	"partitionname selecttypeparameters": {
		words: "CR_Core CR_Core_Memory CR_Socket CR_Socket_Memory",
		takes: matches(`(?i)CR_(Core|Socket).*`),
	},
	"partitionname preemptmode": {list: true, words: "off cancel requeue suspend within priority@25.05", severity: slurmconf.Warning},
	"partitionname cpubind":     {list: true, words: binding, severity: slurmconf.Warning},
	"partitionname suspendtime": {words: "INFINITE", pattern: `-1|\d{1,9}`, want: "seconds, at most 999999999", takes: seconds32},
	"nodename cpubind":          {list: true, words: binding, severity: slurmconf.Warning},
	"nodename state": {
		words:   "UNKNOWN IDLE DOWN ALLOCATED ERROR MIXED FUTURE",
		pattern: `(?i)(CLOUD|DRAIN|FAIL|EXTERNAL).*`, want: "CLOUD, DRAIN, FAIL, FAILING or EXTERNAL",
	},
	"downnodes state": {words: "DOWN FAIL FAILING UNKNOWN DRAIN", severity: slurmconf.Warning},
}

var (
	taskParameters = rule{
		list: true, words: "none sockets cores threads verbose SlurmdOffSpec OOMKillStep SlurmdSpecOverride@25.05",
		pattern: `(?i)autobind=(none|threads|cores|sockets)`, want: "autobind=none, threads, cores or sockets",
	}
	level   = rule{words: levels, pattern: `\d`, want: "0 to 9", takes: matches(`\d.*`)}
	sharing = rule{
		words: "NO EXCLUSIVE YES FORCE", pattern: `(?i)(YES:([2-9]|[1-9]\d+)|FORCE:[1-9]\d*)`,
		want: "YES:count or FORCE:count", takes: matches(`(?i)(YES|FORCE):.*`),
	}
)

// ruleFor is that of a key in lower case, behind the key of its record if it has one.
func ruleFor(kind slurmconf.Kind, name string) (rule, bool) {
	if kind == slurmconf.SlurmdbdConf {
		r, ok := slurmdbdRules[name]
		return r, ok
	}
	if kind != slurmconf.SlurmConf {
		return rule{}, false
	}
	r, ok := rules[name]
	return r, ok
}

func (r rule) judge(version string, pair slurmconf.Pair) slurmconf.Findings {
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
		if r.allows(version, v) {
			continue
		}
		found := slurmconf.Finding{
			Position: pair.Position(), Severity: severity, Rule: "value",
			What: fmt.Sprintf("%s %s %q", pair.Key, verb, v), Want: r.wants(version),
		}
		if r.takes != nil && r.takes(v) {
			found.Severity = slurmconf.Warning
		}
		findings = append(findings, found)
	}
	return findings
}

func (r rule) allows(version, value string) bool {
	for word := range strings.FieldsSeq(r.words) {
		if word, of, _ := strings.Cut(word, "@"); strings.EqualFold(word, value) && isOf(of, version) {
			return true
		}
	}
	return r.pattern != "" && compiled(r.pattern).MatchString(value)
}

// isOf: of is a version and newer, or behind - one and older, or empty.
func isOf(of, version string) bool {
	last, older := strings.CutPrefix(of, "-")
	return of == "" || older && version <= last || !older && version >= of
}

// wordsOf are the words that a version knows.
func (r rule) wordsOf(version string) (words []string) {
	for word := range strings.FieldsSeq(r.words) {
		if word, of, _ := strings.Cut(word, "@"); isOf(of, version) {
			words = append(words, word)
		}
	}
	return words
}

func (r rule) wants(version string) string {
	words := r.wordsOf(version)
	if r.pattern != "" && len(words) > 0 {
		return strings.Join(words, ", ") + ", or " + r.want
	}
	return strings.Join(words, ", ") + r.want
}

func oneOf(words ...string) func(string) bool {
	return func(value string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, value) })
	}
}

func matches(pattern string) func(string) bool {
	return func(value string) bool { return compiled(pattern).MatchString(value) }
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
