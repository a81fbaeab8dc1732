//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// soonAfter is how long a leaver's jobs and sessions may take to end.
const soonAfter = time.Minute

// guest is somebody with a session, and with jobs that run and wait.
type guest struct {
	name string
	over chan error
}

// comesIn logs in by ssh, and leaves a process behind that outlives the session. The jobs are one that runs, one that is
// held, and an array that waits.
func (c *cluster) comesIn(t *testing.T, name, pod string, key ssh.Signer, submit string) *guest {
	t.Helper()
	client, err := dialAs(t, c, name, pod, key)
	require.NoError(t, err, name)
	t.Cleanup(func() { _ = client.Close() }) // the agent may have ended it
	for _, job := range []string{"--wrap 'exec sleep 1000'", "--hold --wrap id", "--hold --array=1-3 --wrap id"} {
		runSSH(t, client, submit+" --chdir=/tmp --output=/dev/null "+job)
	}
	runSSH(t, client, "setsid sleep 1000 </dev/null >/dev/null 2>&1 & :")
	session, err := client.NewSession()
	require.NoError(t, err)
	require.NoError(t, session.Start("trap '' TERM; sleep 1000; sleep 1000"))
	g := &guest{name, make(chan error, 1)}
	go func() { g.over <- session.Wait() }()
	return g
}

// jobsOf are the jobs that slurmctld has not done with, by the uid that it knows them by.
func (c *cluster) jobsOf(t *testing.T, uid int) (all []string) {
	t.Helper()
	for line := range strings.Lines(c.run(t, sandbox.Slurmctld, "squeue", "--noheader", "--format=%U %i %t")) {
		if rest, ours := strings.CutPrefix(line, fmt.Sprint(uid, " ")); ours && !strings.HasSuffix(line, " CG\n") {
			all = append(all, strings.TrimSpace(rest))
		}
	}
	return all
}

// goesOn checks that nothing of somebody's has ended.
func (c *cluster) goesOn(t *testing.T, uid int, g *guest, pod string) {
	t.Helper()
	require.Len(t, c.jobsOf(t, uid), 3, "the jobs of %s", g.name)
	select {
	case err := <-g.over:
		require.Fail(t, "a session has ended", "%s: %v", g.name, err)
	default:
	}
	require.NotEmpty(t, c.run(t, pod, "pgrep", "-u", fmt.Sprint(uid), "sleep"), g.name)
}

// isOver waits for the end of all that somebody has.
func (c *cluster) isOver(t *testing.T, uid int, g *guest, pod string) {
	t.Helper()
	began := time.Now()
	within(t, soonAfter, "jobs and processes of "+g.name+" end", func() (bool, string) {
		jobs := c.jobsOf(t, uid)
		left, _, _, err := c.Exec(t.Context(), pod, "pgrep", "-u", fmt.Sprint(uid))
		require.NoError(t, err)
		return len(jobs) == 0 && left == "", fmt.Sprint(jobs, " ", left)
	})
	select {
	case err := <-g.over:
		t.Log(g.name+"'s session:", err)
	case <-time.After(soonAfter):
		require.Fail(t, "the session goes on", g.name)
	}
	t.Logf("what %s had here ended %v after it was known", g.name, time.Since(began).Round(100*time.Millisecond))
}

// waitFor waits until the agents of both pods say that these people wait for a confirmation.
func (c *cluster) waitFor(t *testing.T, pods []string, people ...string) {
	t.Helper()
	for _, pod := range pods {
		until(t, "the agent of "+pod+" tells who waits", func() (bool, string) {
			var names []string
			status := c.agent(t, pod).Leavers
			for _, w := range status.Waiting {
				names = append(names, w.Name)
			}
			return slices.Equal(names, people), fmt.Sprintf("%+v", status)
		})
	}
}

// leaversOfTheList: an empty list and the leaving of many end nothing, which status and metrics tell. One who leaves loses
// sessions and jobs, and many do whose names are confirmed.
func leaversOfTheList(t *testing.T, c *cluster) {
	pods := []string{sandbox.Slurmctld, "login"}
	people := []string{"ida", "jan", "kim", "lea", "max"}
	c.setUsers(t, usersFiles(people...), people...)
	defer func() {
		c.setUsers(t, usersFiles(), people...)
		for i, name := range people { // the next case needs the node's CPUs
			for _, job := range c.jobsOf(t, 2000+i) {
				c.run(t, sandbox.Slurmctld, "scancel", strings.Fields(job)[0])
			}
			until(t, "jobs of "+name+" are over", func() (bool, string) {
				jobs := c.jobsOf(t, 2000+i)
				return len(jobs) == 0, fmt.Sprint(jobs)
			})
		}
	}()
	guests := map[string]*guest{}
	for _, name := range people {
		guests[name] = c.comesIn(t, name, "login", userKey(t, c), "sbatch -p many --mem=10")
	}
	goOn := func(names ...string) {
		t.Helper()
		for i, name := range people {
			if slices.Contains(names, name) {
				c.goesOn(t, 2000+i, guests[name], "login")
			}
		}
	}
	c.setUsers(t, usersFiles(), people...)
	c.waitFor(t, pods, people...)
	goOn(people...)
	c.setUsers(t, usersFiles(people[:2]...), people...)
	c.waitFor(t, pods, people[2:]...)
	c.measures(t, "login", "slurmlet_leavers_waiting 3")
	goOn(people...)
	c.setUsers(t, usersFiles(people...), people...)
	c.waitFor(t, pods)
	goOn(people...)

	c.setUsers(t, usersFiles(people[:4]...), people[:4]...)
	c.isOver(t, 2004, guests["max"], "login")
	goOn(people[:4]...)
	c.setUsers(t, usersFiles(people[:2]...), people[:2]...)
	c.waitFor(t, pods, "kim", "lea")
	goOn(people[:4]...)
	files := usersFiles(people[:2]...)
	files["removed"] = sandbox.File{Data: []byte("kim\nlea\n"), Mode: 0o444}
	c.setUsers(t, files, people[:2]...)
	c.isOver(t, 2002, guests["kim"], "login")
	c.isOver(t, 2003, guests["lea"], "login")
	goOn(people[:2]...)
	for _, pod := range pods {
		assert.Equal(t, 3, c.agent(t, pod).Leavers.Ended, pod)
	}
}
