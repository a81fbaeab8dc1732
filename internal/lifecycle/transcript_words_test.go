package lifecycle

import (
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// lives are the roles, by what the agent does for them.
var lives = map[string]Plan{
	"node":      {Registers: true, Restarts: true, Announces: true, Reaches: true},
	"elastic":   {Registers: true, Restarts: true, Announces: true, Reaches: true, Elastic: true},
	"slurmctld": {Announces: true, Reloads: true},
	"plain":     {Announces: true}, // a daemon whose end is the container's
	"login":     {Restarts: true, Announces: true, Reaches: true, Hosts: true},
	"slurmdbd":  {Restarts: true, Reaches: true, Converts: true},
	"sackd":     {Restarts: true, Announces: true},
}

// eventWords are the words for events, with the fields as they usually are.
var eventWords = []struct {
	word  string
	usual Event
}{
	{"begin", Begun{}},
	{"start", MainStarted{At: epoch}},
	{"start-fails", MainFailed{}},
	{"ready", MainReady{}},
	{"handover", MainChanged{At: epoch}},
	{"exit", MainExited{}},
	{"hang", MainHung{}},
	{"answer", Answered{}},
	{"done", Done{}},
	{"measure", Measured{Allocation: nodesize.Allocation{Size: small}, At: epoch}},
	{"order", DeadlineSet{At: epoch, Source: "slurmlet deadline"}},
	{"step-ends", StepsEnded{}},
	{"count", StepsCounted{}},
	{"timer", TimerFired{}},
	{"SIGTERM", Terminated{Signal: "SIGTERM", At: epoch}},
	{"SIGINT", Terminated{Signal: "SIGINT", At: epoch}},
	{"SIGHUP", HungUp{}},
	{"complain", Troubled{}},
	{"slurmctld-moved", ControllerMoved{}},
	{"database-away", DatabaseAway{}},
	{"files", FilesChanged{}},
	{"sessions-over", SessionsOver{}},
	{"deadline", DeadlinePassed{}},
	{"edit", conf.Revision{At: epoch}},
	{"checked", conf.Checked{Staged: "staged"}},
	{"launched", conf.LaunchesOver{}},
	{"placed", conf.PlaceEnded{}},
	{"reconfigured", conf.ReconfigureEnded{}},
	{"nodes", conf.NodesAsked{}},
	{"reload-timer", conf.ReloadTimerFired{}},
	{"outdated", Outdated{}},
	{"slurmctld-lost", ControllerLost{}},
	{"state-held", StateHeld{}},
	{"launch-refused", LaunchRefused{}},
	{"lost-jobs", LostJobsFound{}},
}

var verbWords = [...]string{
	DeleteNode: "delete", RenewNode: "renew", DeleteAgain: "delete-again", DrainNode: "drain", ResumeNode: "resume", UpdateNode: "update",
	FailNode: "fail", PowerDownNode: "power-down", PowerOffNode: "power-off", RequeueJobs: "requeue", EndStaleJobs: "end-stale-jobs", MendLaunch: "mend-launch", StartSackd: "start-sackd",
}

var stageWords = [...]string{
	toWait: "wait", toSignal: "signal", toRequeue: "requeue", toKill: "kill", toFail: "fail", toLeave: "leave", toStop: "stop", toEnd: "end",
}

// fieldNames are those that are not simply the field's name in small letters.
var fieldNames = map[string]string{"Err": "error"}
