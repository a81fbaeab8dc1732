package lifecycle

import (
	"strings"

	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/sessions"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// lives are the roles, by what the agent does for them.
var lives = map[string]Plan{
	"node":      {Role: Role{Registers: true}, Plan: supervised("restarts announces reaches")},
	"elastic":   {Role: Role{Registers: true}, Plan: supervised("restarts announces reaches"), NodePlan: node.Plan{Elastic: true}},
	"slurmctld": {Role: Role{Reloads: true}, Plan: supervised("announces")},
	"plain":     {Plan: supervised("announces")}, // a daemon whose end is the container's
	"login":     {Role: Role{Hosts: true}, Plan: supervised("restarts announces reaches")},
	"slurmdbd":  {Role: Role{Converts: true}, Plan: supervised("restarts reaches")},
	"sackd":     {Plan: supervised("restarts announces")},
}

func supervised(how string) supervisor.Plan {
	return supervisor.Plan{
		Restarts: strings.Contains(how, "restarts"), Announces: strings.Contains(how, "announces"), Reaches: strings.Contains(how, "reaches"),
	}
}

// eventWords are the words for events, with the fields as they usually are.
var eventWords = []struct {
	word  string
	usual Event
}{
	{"begin", supervisor.Begun{}},
	{"start", supervisor.MainStarted{At: epoch}},
	{"start-fails", supervisor.MainFailed{}},
	{"ready", supervisor.MainReady{}},
	{"handover", supervisor.MainChanged{At: epoch}},
	{"exit", supervisor.MainExited{}},
	{"hang", supervisor.MainHung{}},
	{"answer", node.Answered{}},
	{"done", node.Done{}},
	{"measure", node.Measured{Allocation: nodesize.Allocation{Size: small}, At: epoch}},
	{"order", deadlines.DeadlineSet{At: epoch, Source: "slurmlet deadline"}},
	{"step-ends", node.StepsEnded{}},
	{"count", node.StepsCounted{}},
	{"timer", supervisor.TimerFired{}},
	{"SIGTERM", supervisor.Terminated{Signal: "SIGTERM", At: epoch}},
	{"SIGINT", supervisor.Terminated{Signal: "SIGINT", At: epoch}},
	{"SIGHUP", supervisor.HungUp{}},
	{"complain", supervisor.Troubled{}},
	{"slurmctld-moved", supervisor.SlurmctldMoved{}},
	{"database-away", DatabaseAway{}},
	{"files", supervisor.FilesChanged{}},
	{"sessions-over", sessions.SessionsOver{}},
	{"deadline", deadlines.DeadlinePassed{}},
	{"edit", conf.Revision{At: epoch}},
	{"checked", conf.Checked{Staged: "staged"}},
	{"launched", conf.LaunchesOver{}},
	{"placed", conf.PlaceEnded{}},
	{"reconfigured", conf.ReconfigureEnded{}},
	{"nodes", conf.NodesAsked{}},
	{"reload-timer", conf.ReloadTimerFired{}},
	{"outdated", supervisor.Outdated{}},
	{"slurmctld-lost", node.SlurmctldLost{}},
	{"state-held", StateHeld{}},
	{"launch-refused", node.LaunchRefused{}},
	{"lost-jobs", node.LostJobsFound{}},
}

var verbWords = [...]string{
	node.DeleteNode: "delete", node.RenewNode: "renew", node.DeleteAgain: "delete-again", node.DrainNode: "drain", node.ResumeNode: "resume", node.UpdateNode: "update",
	node.FailNode: "fail", node.PowerDownNode: "power-down", node.PowerOffNode: "power-off", node.RequeueJobs: "requeue", node.EndStaleJobs: "end-stale-jobs", node.MendLaunch: "mend-launch", node.StartSackd: "start-sackd",
}

var stageWords = [...]string{
	deadlines.None: "wait", deadlines.Signal: "signal", deadlines.Requeue: "requeue", deadlines.Kill: "kill", deadlines.Fail: "fail", deadlines.Leave: "leave", deadlines.Stop: "stop", deadlines.End: "end",
}

// fieldNames are those that are not simply the field's name in small letters.
var fieldNames = map[string]string{"Err": "error"}
