package reconfig

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// Difference is how the content of the sources differs from what slurmctld runs with.
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

// Difference reads the sources and compares them with the live set.
func (r *Reloader) Difference() Difference {
	d := r.difference()
	d.Refused = r.seen.Load().Refused
	return d
}

func (r *Reloader) difference() Difference {
	dir, err := os.MkdirTemp(r.RunDir, "diff-")
	if err != nil {
		return Difference{Error: err.Error()}
	}
	defer os.RemoveAll(dir)
	now := r.Read()
	if now.Err != nil {
		return Difference{Error: now.Err.Error()}
	}
	staged, err := r.stageIn(&confset.Store{Dir: dir, Name: "conf", UID: os.Geteuid(), GID: os.Getegid()}, now.Set)
	if err != nil {
		return Difference{Error: err.Error()}
	}
	before, _ := slurmconf.Read(slurmconf.Dir(r.LiveDir()))
	after, findings := slurmconf.Read(slurmconf.Dir(staged))
	return Difference{
		Changes: slurmconf.Diff(before, after), Files: otherFiles(r.LiveDir(), staged, slices.Concat(before.Files, after.Files)),
		Error: strings.Join(lines(now.Set, staged, findings, slurmconf.Error), "\n"),
	}
}

// mostChanges are enough to know where to look for what a daemon does not like;
// "slurmlet diff" lists all.
const mostChanges = 10

// changesFrom is how the set differs from the one at live, which slurmctld reads.
func (c candidate) changesFrom(live string) []string {
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

// otherFiles are those that differ, without the files whose changes slurmconf reports.
func otherFiles(before, after string, reported []*slurmconf.File) []string {
	was, is := confset.Contents(before, nil), confset.Contents(after, nil)
	for _, f := range reported {
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
