package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// Difference is what the sources hold beside what slurmctld runs with.
type Difference struct {
	// Changes are in Slurm's terms, of what it reads.
	Changes []slurmconf.Change `json:"changes,omitempty"`
	// Files are others, such as job_submit.lua, that differ.
	Files []string `json:"files,omitempty"`
	// Refused says why the sources' content is not live, if it was tried.
	Refused *Refusal `json:"refused,omitempty"`
	// Error says why there is nothing to compare.
	Error string `json:"error,omitempty"`
}

// Empty says whether there is none.
func (d Difference) Empty() bool {
	return len(d.Changes)+len(d.Files) == 0 && d.Refused == nil && d.Error == ""
}

func (a *Agent) serveDiff(w http.ResponseWriter, _ *http.Request) {
	d := a.difference()
	d.Refused = a.Status().Conf.Refused
	_ = json.NewEncoder(w).Encode(d) // the reader has gone
}

func (a *Agent) difference() Difference {
	dir, err := os.MkdirTemp(a.Config.RunDir, "diff-")
	if err != nil {
		return Difference{Error: err.Error()}
	}
	defer os.RemoveAll(dir)
	e := a.readSources()
	if e.err != nil {
		return Difference{Error: e.err.Error()}
	}
	staged, err := confset.Store{Dir: dir, Name: "conf", UID: os.Geteuid(), GID: os.Getegid()}.Stage(e.set, a.render)
	if err != nil {
		return Difference{Error: err.Error()}
	}
	live := a.conf.live.Current()
	before, _ := slurmconf.Read(slurmconf.Dir(live))
	after, findings := slurmconf.Read(slurmconf.Dir(staged))
	return Difference{
		Changes: slurmconf.Diff(before, after), Files: otherFiles(live, staged, slices.Concat(before.Files, after.Files)),
		Error: strings.Join(lines(e.set, staged, findings, slurmconf.Error), "\n"),
	}
}

// mostChanges are enough to know where to look for what a daemon does not like;
// "slurmlet diff" tells all.
const mostChanges = 10

// changes is what slurmctld, which reads the set at live, would see another.
func (c candidate) changes(live string) []string {
	var all []string
	for _, change := range slurmconf.Diff(c.before, c.conf) {
		all = append(all, "changed: "+change.String())
	}
	for _, name := range otherFiles(live, c.dir, slices.Concat(c.before.Files, c.conf.Files)) {
		all = append(all, "changed: "+name)
	}
	if more := len(all) - mostChanges; more > 0 {
		all = append(all[:mostChanges], fmt.Sprintf("changed: %d more", more))
	}
	return all
}

// otherFiles are those that differ, without those of which slurmconf tells what
// has changed.
func otherFiles(before, after string, told []*slurmconf.File) []string {
	was, is := confset.Contents(before, nil), confset.Contents(after, nil)
	for _, f := range told {
		delete(was, f.Name)
		delete(is, f.Name)
	}
	var all []string
	for name, data := range is {
		if old, found := was[name]; !found || !bytes.Equal(old, data) {
			all = append(all, name)
		}
	}
	for name := range was {
		if _, found := is[name]; !found {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
