package agent

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// openConf finds what slurmctld can be started with.
func (a *Agent) openConf() {
	a.reloader, a.life.Conf.Good = reconfig.Open(reconfig.Options{
		Sources: a.Config.ConfSources, ConfigMap: a.Config.ConfigMap, RunDir: a.Config.RunDir, StateDir: a.Config.StateDir, Preflight: a.Config.Preflight,
		Defaults: a.Config.ConfDefaults, SlurmUser: a.Config.SlurmUser,
		Elastic: a.elasticConf(), ElasticDir: a.Config.ElasticSets, Programs: a.waits,
		Daemon: reconfig.Daemon{Path: a.daemon.path, Env: a.daemon.environ(a), Credential: a.daemon.credential},
		Table:  a.Table, Client: a.client, Feed: &a.feed, Saved: a.saved, CopyKeys: a.takeKeys, Fatal: a.fatalSince, Log: a.log,
	})
	first := a.reloader.Read()
	a.life.Conf.Next = &first
}

// fatalSince is the daemon's last fatal line since a time, empty for none.
func (a *Agent) fatalSince(since time.Time) string {
	a.output.Flush()
	if last := a.lastFatal.Load(); last != nil && !last.At.Before(since) {
		return last.Text
	}
	return ""
}

func (a *Agent) serveDiff(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(a.reloader.Difference()) // the reader has gone
}
