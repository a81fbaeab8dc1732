package agent

import (
	"log/slog"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// noise is an error that a daemon writes while nothing is wrong. It stays in the log, and is no error of the status.
type noise struct {
	// begins and ends are how the line does: a user may have chosen what is between.
	begins, ends string
	// while says whether it is harmless now; nil: always.
	while func(*Agent) bool
	// cause is what the daemon means.
	cause string
}

// noises are the daemons', for each role (seen in 24.11.5 and 26.05.5).
var noises = map[Role][]noise{
	Slurmctld: {
		{"Could not open node state file", "", (*Agent).isNew, "there is no state at the first start"},
		{"Could not open partition state file", "", (*Agent).isNew, "there is no state at the first start"},
		{"Could not open job state file", "", (*Agent).isNew, "there is no state at the first start"},
		{"Could not open reservation state file", "", (*Agent).isNew, "there is no state at the first start"},
		{"Could not open trigger state file", "", (*Agent).isNew, "there is no state at the first start"},
		{"No fed_mgr state file", "", (*Agent).isNew, "there is no state at the first start"},
		{"NOTE: Trying backup ", "", (*Agent).isNew, "there is no state at the first start"},
		{"_find_node_record: lookup failure for node ", "", nil, "somebody has asked for a node without a record: the agent deletes each record twice"},
		{"find_node_record: lookup failure for node ", "", nil, "somebody has asked for a node without a record: the agent deletes each record twice"},
		{"node_did_resp unable to find node ", "", nil, "a node has answered after its record was deleted"},
		{"node_not_resp unable to find node ", "", nil, "a node has not answered, and its record is deleted"},
		{"slurm_send_node_msg: [", " failed: Unexpected missing socket error", nil, "who asked has hung up"},
		{"Configured MailProg is invalid", "", (*Agent).hasNoMailProg, "slurm.conf names no MailProg, and the image has no mail"},
		{"Job accounting information gathered, but not stored", "", nil, "there is no slurmdbd, and usage is read for running jobs alone"},
		{"High latency for ", "", nil, "the machine's clock was slow to read, once"},
		{"Sending PersistInit msg: ", "", (*Agent).isStarting, "slurmctld waits for slurmdbd at its start, and the reason of the state says so"},
		{"Still don't know my ClusterID", "", (*Agent).isStarting, "slurmctld waits for slurmdbd at its start, and the reason of the state says so"},
		{"Retrying initial connection to slurmdbd", "", (*Agent).isStarting, "slurmctld waits for slurmdbd at its start, and the reason of the state says so"},
		{"Association database appears down", "", (*Agent).isStarting, "slurmctld waits for slurmdbd at its start, and the reason of the state says so"},
		{"Unable to get any information from the state file", "", (*Agent).isStarting, "slurmctld waits for slurmdbd at its start, and the reason of the state says so"},
		{"_open_persist_conn: failed to open persistent connection", "", (*Agent).isStarting, "slurmctld waits for slurmdbd at its start, and the reason of the state says so"},
		{"_xgetaddrinfo: getaddrinfo", "", (*Agent).isStarting, "slurmctld waits for slurmdbd at its start, and the reason of the state says so"},
		{"slurm_set_addr: Unable to resolve", "", (*Agent).isStarting, "slurmctld waits for slurmdbd at its start, and the reason of the state says so"},
		{"slurm_get_port: Address family", "", (*Agent).isStarting, "slurmctld waits for slurmdbd at its start, and the reason of the state says so"},
		{"Error connecting, bad data", "", (*Agent).isStarting, "slurmctld waits for slurmdbd at its start, and the reason of the state says so"},
	},
	Slurmd: {
		{"Node configuration differs from hardware", "", nil, "the pod is a part of the machine"},
	},
}

// isNoise says whether an error's cause is known and harmless. What passes by itself at a start may be what the start
// waits for.
func (a *Agent) isNoise(line string) (harmless, passes bool) {
	if !strings.ContainsFunc(line, unicode.IsLetter) { // the frame of a warning in large letters
		return true, false
	}
	for _, n := range noises[a.Config.Role] {
		if strings.HasPrefix(line, n.begins) && strings.HasSuffix(line, n.ends) && (n.while == nil || n.while(a)) {
			return true, n.while != nil
		}
	}
	return false, false
}

// heardError remembers a daemon's error for the status, and for the reason of a state that lasts.
func (a *Agent) heardError(text string) {
	harmless, passes := a.isNoise(text)
	said := &LastError{At: time.Now(), Text: text}
	if !harmless || passes {
		a.lastSaid.Store(said)
	}
	if !harmless {
		a.lastError.Store(said)
	}
}

// isNew: this slurmctld was started with no state.
func (a *Agent) isNew() bool { return a.saved != nil && a.saved.Empty() }

// isStarting: the container has not been Ready yet.
func (a *Agent) isStarting() bool {
	s := a.status.Load()
	return s == nil || !s.Started
}

// hasNoMailProg: slurm.conf leaves MailProg to Slurm.
func (a *Agent) hasNoMailProg() bool {
	set, _ := slurmconf.Read(slurmconf.Dir(filepath.Dir(reconfig.LivePath(a.Config.RunDir))), slurmconf.SlurmConf)
	conf := set.Conf(slurmconf.SlurmConf)
	if conf == nil {
		return false
	}
	_, named := conf.Get("MailProg")
	return !named
}

// LossStatus is what slurmctld itself has said of jobs that it has lost, since the container's start.
type LossStatus struct {
	Count int `json:"count"`
	// Last is the last of these lines, nil for none.
	Last *LastError `json:"last,omitempty"`
}

// losses are lines in which slurmctld says that it has lost a job, or all of them (24.11.5 and 26.05.5).
var losses = []struct {
	begins, ends string
	while        func(*Agent) bool
}{
	{"NOTE: Trying backup state save file. Jobs may be lost!", "", (*Agent).isOld},
	{"No job state file (", "", (*Agent).isOld},
	{"Incomplete job state save file", "", nil},
	{"Script for JobId=", " lost, state set to FAILED", nil},
	{"Unable to recover slurm state", "", nil},
}

func (a *Agent) isOld() bool { return !a.isNew() }

// heardLoss counts a line of slurmctld's that tells of a lost job. No later error takes its place in the status.
func (a *Agent) heardLoss(line process.Line) {
	if a.Config.Role != Slurmctld {
		return
	}
	for _, l := range losses {
		if !strings.HasPrefix(line.Text, l.begins) || !strings.HasSuffix(line.Text, l.ends) || l.while != nil && !l.while(a) {
			continue
		}
		for last, done := (&LastError{At: time.Now(), Text: line.Text}), false; !done; {
			before, now := a.loss.Load(), &LossStatus{Count: 1, Last: last}
			if before != nil {
				now.Count += before.Count
			}
			done = a.loss.CompareAndSwap(before, now)
		}
		a.log(slog.LevelError, "slurmctld says that it has lost jobs", slog.String("line", line.Text))
		return
	}
}
