package agent

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// trialSetting is a key of slurm.conf(5) that a slurmctld on trial has its own value
// of, whatever the candidate sets.
type trialSetting struct {
	key string
	// value is nil, or returns nothing, where Slurm's default will do.
	value func(*trial) string
}

var trialSettings = []trialSetting{
	// It is the only slurmctld that it knows of, and where nobody looks for it.
	{"SlurmctldHost", (*trial).host},
	{"SlurmctldPort", func(t *trial) string { return strconv.Itoa(t.port) }},
	{"SlurmctldAddr", nil},
	{"ControlMachine", nil},
	{"ControlAddr", nil},
	{"BackupController", nil},
	{"BackupAddr", nil},
	// What it writes is its own.
	{"StateSaveLocation", (*trial).state},
	{"SlurmctldPidFile", func(t *trial) string { return filepath.Join(t.dir, "pid") }},
	{"AuthInfo", (*trial).authInfo},
	// It says what it has to say to the agent, in a form that the agent reads.
	{"SlurmctldDebug", says("info")},
	{"SlurmctldSyslogDebug", says("quiet")},
	{"SlurmctldLogFile", nil},
	{"SlurmSchedLogFile", nil},
	{"SlurmSchedLogLevel", nil},
	{"LogTimeFormat", nil},
	{"DebugFlags", nil},
	// It runs nobody's programs; plugins may insist on the first two, and it misses the third.
	{"SuspendProgram", idle("SuspendProgram")},
	{"ResumeProgram", idle("ResumeProgram")},
	{"MailProg", says(idleProgram)},
	{"ResumeFailProgram", nil},
	{"SlurmctldPrimaryOnProg", nil},
	{"SlurmctldPrimaryOffProg", nil},
	// These plugins run programs or speak to others as they begin.
	{"BurstBufferType", nil},
	{"JobCompType", nil},
	{"SwitchType", nil},
}

func says(value string) func(*trial) string { return func(*trial) string { return value } }

const idleProgram = "/bin/true"

// idle puts a program that does nothing in the place of one that is set.
func idle(key string) func(*trial) string {
	return func(t *trial) string {
		if _, set := t.slurmConf().Get(key); set {
			return idleProgram
		}
		return ""
	}
}

// host is this one, which slurmctld wants to find among its own, without the others.
func (t *trial) host() string {
	all := t.slurmConf().Controllers()
	if len(all) == 0 {
		return ""
	}
	long := hostname()
	short, _, _ := strings.Cut(long, ".")
	here := slices.IndexFunc(all, func(c slurmconf.Controller) bool { return c.Host == long || c.Host == short })
	return all[max(here, 0)].Host + "(127.0.0.1)"
}

// authInfo keeps auth/slurm from the socket at which the living slurmctld vouches for
// users.
func (t *trial) authInfo() string {
	info, _ := t.slurmConf().Value("AuthInfo")
	if kind, _ := t.slurmConf().Value("AuthType"); kind != "auth/slurm" {
		return info
	}
	return strings.TrimPrefix(info+",disable_sack", ",")
}

func (t *trial) slurmConf() *slurmconf.Conf { return t.set.conf.Conf(slurmconf.SlurmConf) }

// text is the candidate's slurm.conf in one file, Includes and all, with the trial's own
// settings.
func (t *trial) text() string {
	var b strings.Builder
	for l := range t.slurmConf().Lines() {
		switch key := l.Pairs[0].Key; {
		case slices.ContainsFunc(trialSettings, func(s trialSetting) bool { return strings.EqualFold(s.key, key) }):
		case strings.EqualFold(key, "NodeName"):
			b.WriteString(ended(unreached(l)))
		default:
			b.WriteString(ended(l.Text()))
		}
	}
	for _, s := range trialSettings {
		if s.value == nil {
			continue
		}
		if value := s.value(t); value != "" {
			b.WriteString(written(slurmconf.Setting{Key: s.key, Value: value}))
		}
	}
	return b.String()
}

// ended is a line that nothing continues, also where a file ends in a backslash.
func ended(line string) string {
	if strings.HasSuffix(line, "\n") {
		return line
	}
	return line + "\n\n"
}

// unreached gives the nodes of a line an address that needs no DNS, for which slurmctld
// would ask them one after the other, ten times each. A wrong number of addresses stays,
// for slurmctld to see.
func unreached(l *slurmconf.Line) string {
	const address = "NodeAddr"
	names := l.Pairs[0].Value
	if given, set := l.Get(address); strings.EqualFold(names, "DEFAULT") || set && count(given.Value) > 1 && count(given.Value) != count(names) {
		return l.Text()
	}
	var settings []slurmconf.Setting
	for _, p := range l.Pairs {
		if !strings.EqualFold(p.Key, address) {
			settings = append(settings, slurmconf.Setting{Key: p.Key, Value: p.Value})
		}
	}
	return written(append(settings, slurmconf.Setting{Key: address, Value: "127.0.0.1"})...)
}

func count(hosts string) int {
	list, _ := hostlist.Parse(hosts) // what is wrong was told by the check
	return list.Len()
}

// written is a line with settings, or nothing where Slurm's grammar has no way to write
// them: they were read from a line, so it has.
func written(settings ...slurmconf.Setting) string {
	file, _ := slurmconf.Parse(string(slurmconf.SlurmConf), "")
	_ = file.Append("", settings...)
	return file.String()
}
