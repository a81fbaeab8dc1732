//go:build e2e

package e2e

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// scriptsRun: those of the configuration's volume, whose files nobody may run, are run
// by slurmctld from the live set, and by the nodes, which get them from there.
func (e *editing) scriptsRun(t *testing.T) {
	good := e.agent(t, sandbox.Slurmctld).Conf.Good
	files := maps.Clone(e.files)
	files["slurm.conf"] = sandbox.File{Data: []byte(e.conf() + "\nPrologSlurmctld=/run/slurmlet/conf/begin.sh\nProlog=prolog.sh\n")}
	files["begin.sh"] = sandbox.File{Data: []byte("#!/bin/sh\nexec touch /tmp/begun.$SLURM_JOB_ID\n"), Mode: 0o644}
	files["prolog.sh"] = sandbox.File{Data: []byte("#!/bin/sh\nexec touch /tmp/prolog.$SLURM_JOB_ID\n"), Mode: 0o644}
	e.swap(t, files)
	good = e.waitLive(t, good)
	e.waitReady(t, sandbox.Slurmctld, "node-0", "node-1")
	id := e.submit(t, "true", "-w", "node-0")
	e.waitJob(t, id, "COMPLETED")
	assert.Contains(t, e.run(t, sandbox.Slurmctld, "ls", "/tmp"), "begun."+id)
	assert.Contains(t, e.run(t, "node-0", "ls", "/tmp"), "prolog."+id)
	e.swap(t, e.files)
	e.waitLive(t, good)
	e.waitReady(t, sandbox.Slurmctld, "node-0", "node-1")
}
