package slurmctld

import (
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// Heard takes a line of slurmctld's.
func (p *Pod) Heard(line process.Line) {
	if p == nil {
		return
	}
	if job := heldJob(line); job != "" {
		go p.explainHeld(job)
	}
	if line.Level > slog.LevelError {
		p.fatal.Store(&Line{At: time.Now(), Text: line.Text})
	}
	p.heardLoss(line)
	p.saved.HeardLine(line)
	p.waits.Heard(line.Text)
}

// Line is one that slurmctld has written.
type Line struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// fatalSince returns the last fatal line since a time, empty for none.
func (p *Pod) fatalSince(since time.Time) string {
	p.FlushOutput()
	if last := p.fatal.Load(); last != nil && !last.At.Before(since) {
		return last.Text
	}
	return ""
}

// noise is an error that slurmctld writes while nothing is wrong. It stays in the log, and is no error of the status.
type noise struct {
	// begins and ends are how the line does: a user may have chosen what is between.
	begins, ends string
	// while says whether it is harmless now; nil: always.
	while func(*Pod) bool
	// cause says what slurmctld means by the line; the log has it beside the line.
	cause string
}

// waitsForSlurmdbd is the cause of several lines at a start.
const waitsForSlurmdbd = "slurmctld waits for slurmdbd at its start, and the reason of the state says so"

// noises were seen in 24.11.5 and 26.05.5.
var noises = []noise{
	{"Could not open node state file", "", (*Pod).isNew, "there is no state at the first start"},
	{"Could not open partition state file", "", (*Pod).isNew, "there is no state at the first start"},
	{"Could not open job state file", "", (*Pod).isNew, "there is no state at the first start"},
	{"Could not open reservation state file", "", (*Pod).isNew, "there is no state at the first start"},
	{"Could not open trigger state file", "", (*Pod).isNew, "there is no state at the first start"},
	{"No fed_mgr state file", "", (*Pod).isNew, "there is no state at the first start"},
	{"NOTE: Trying backup ", "", (*Pod).isNew, "there is no state at the first start"},
	{
		"_find_node_record: lookup failure for node ", "", nil,
		"somebody has asked for a node without a record: the agent deletes each record twice",
	},
	{
		"find_node_record: lookup failure for node ", "", nil,
		"somebody has asked for a node without a record: the agent deletes each record twice",
	},
	{"node_did_resp unable to find node ", "", nil, "a node has answered after its record was deleted"},
	{"node_not_resp unable to find node ", "", nil, "a node has not answered, and its record is deleted"},
	{"slurm_send_node_msg: [", " failed: Unexpected missing socket error", nil, "who asked has hung up"},
	{"Configured MailProg is invalid", "", (*Pod).hasNoMailProg, "slurm.conf names no MailProg, and the image has no mail"},
	{"Job accounting information gathered, but not stored", "", nil, "there is no slurmdbd, and usage is read for running jobs alone"},
	{"High latency for ", "", nil, "the machine's clock was slow to read, once"},
	{"Sending PersistInit msg: ", "", (*Pod).isStarting, waitsForSlurmdbd},
	{"Still don't know my ClusterID", "", (*Pod).isStarting, waitsForSlurmdbd},
	{"Retrying initial connection to slurmdbd", "", (*Pod).isStarting, waitsForSlurmdbd},
	{"Association database appears down", "", (*Pod).isStarting, waitsForSlurmdbd},
	{"Unable to get any information from the state file", "", (*Pod).isStarting, waitsForSlurmdbd},
	{"_open_persist_conn: failed to open persistent connection", "", (*Pod).isStarting, waitsForSlurmdbd},
	{"_xgetaddrinfo: getaddrinfo", "", (*Pod).isStarting, waitsForSlurmdbd},
	{"slurm_set_addr: Unable to resolve", "", (*Pod).isStarting, waitsForSlurmdbd},
	{"slurm_get_port: Address family", "", (*Pod).isStarting, waitsForSlurmdbd},
	{"Error connecting, bad data", "", (*Pod).isStarting, waitsForSlurmdbd},
}

// IsNoise says whether an error's cause is known and harmless. What passes by itself at a start may be what the start
// waits for.
func (p *Pod) IsNoise(line string) (harmless, passes bool) {
	if p == nil {
		return false, false
	}
	for _, n := range noises {
		if strings.HasPrefix(line, n.begins) && strings.HasSuffix(line, n.ends) && (n.while == nil || n.while(p)) {
			return true, n.while != nil
		}
	}
	return false, false
}

// isNew: this slurmctld was started with no state.
func (p *Pod) isNew() bool { return p.saved.Empty() }

func (p *Pod) isOld() bool { return !p.isNew() }

// isStarting: the container has not been Ready yet.
func (p *Pod) isStarting() bool { return !p.Life().Started }

// hasNoMailProg: slurm.conf leaves MailProg to Slurm.
func (p *Pod) hasNoMailProg() bool {
	set, _ := slurmconf.Read(slurmconf.Dir(filepath.Dir(reconfig.LivePath(p.RunDir))), slurmconf.SlurmConf)
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
	Last *Line `json:"last,omitempty"`
}

// lossLines are those in which slurmctld says that it has lost a job, or all of them (24.11.5 and 26.05.5).
var lossLines = []struct {
	begins, ends string
	while        func(*Pod) bool
}{
	{"NOTE: Trying backup state save file. Jobs may be lost!", "", (*Pod).isOld},
	{"No job state file (", "", (*Pod).isOld},
	{"Incomplete job state save file", "", nil},
	{"Script for JobId=", " lost, state set to FAILED", nil},
	{"Unable to recover slurm state", "", nil},
}

// heardLoss counts a line about a lost job. No later error takes its place in the status.
func (p *Pod) heardLoss(line process.Line) {
	for _, l := range lossLines {
		if !strings.HasPrefix(line.Text, l.begins) || !strings.HasSuffix(line.Text, l.ends) || l.while != nil && !l.while(p) {
			continue
		}
		for last, done := (&Line{At: time.Now(), Text: line.Text}), false; !done; {
			before, now := p.losses.Load(), &LossStatus{Count: 1, Last: last}
			if before != nil {
				now.Count += before.Count
			}
			done = p.losses.CompareAndSwap(before, now)
		}
		p.Log(slog.LevelError, "slurmctld says that it has lost jobs", slog.String("line", line.Text))
		return
	}
}
