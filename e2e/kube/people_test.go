//go:build e2e

package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
)

// person is one of the value users, or of a directory.
type person struct {
	name, uid string
	// key is the file of the private one, public the other as sshd has it.
	key, public string
	// line is the person's in users.
	line string
	// node is where the person's job runs, and other where it does not.
	node, other string
	job         job
	// clients are the person's connections, of which the last one is used.
	clients []*ssh.Client
	// forwards: the keys of the person's own machine can be used in the login pod, as with ssh -A.
	forwards bool
}

// fivePeople have keys of their own, below a directory.
func fivePeople(t *testing.T, dir string) (all []*person) {
	for i, name := range []string{"ida", "jan", "kim", "lea", "max"} {
		p := &person{name: name, uid: strconv.Itoa(2001 + i), key: filepath.Join(dir, name)}
		p.node, p.other = fmt.Sprintf("slurm-cpu-%d", i%2), fmt.Sprintf("slurm-cpu-%d", 1-i%2)
		require.NoError(t, remote.MakeKey(p.key))
		signer, err := remote.ReadKey(p.key)
		require.NoError(t, err)
		p.public = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
		p.line = fmt.Sprintf("  - {name: %s, uid: %s, groups: {physics: 3000}, keys: [%s], account: physics}\n", name, p.uid, p.public)
		all = append(all, p)
	}
	return all
}

// peoplesValues writes the values of docs/run/users.md, accounts.md, ssh.md and tokens.md for five people.
func peoplesValues(t *testing.T) (all []*person, file string) {
	dir := t.TempDir()
	all = fivePeople(t, dir)
	file = filepath.Join(dir, "people.yaml")
	require.NoError(t, os.WriteFile(file, []byte(usersValue(all)+"accounts: {accounts: {physics: {}}}\n"+withPeople), 0o600))
	return all, file
}

// withPeople are values for people, wherever they are known. The two nodes have one CPU each, which the jobs of all share.
const withPeople = `accounting: {enabled: true, mariadb: {image: "` + databaseImage + `"}}
rest: {enabled: true}
login: {service: {type: NodePort}}
nodeSets: {cpu: {ssh: true}}
slurm:
  conf: {PriorityCalcPeriod: 1}
  defaultPartition: Default=YES State=UP OverSubscribe=FORCE:8
`

// usersValue is the value users.
func usersValue(people []*person) string {
	text := "users:\n"
	for _, p := range people {
		text += p.line
	}
	return text
}

// comesIn logs the person in through the login pods' Service, at the port of the machine that has none of them.
func (p *person) comesIn(t *testing.T, c *cluster) error {
	t.Helper()
	address := c.field(t, "node/"+second, `.status.addresses[?(@.type=="InternalIP")].address`)
	port := c.field(t, "service/slurm-login", ".spec.ports[0].nodePort")
	conn, err := c.Dial(t.Context(), address+":"+port)
	require.NoError(t, err)
	key, err := remote.ReadKey(p.key)
	require.NoError(t, err)
	client, err := remote.Login(conn, p.name, key)
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = client.Close() })
	p.clients, p.forwards = append(p.clients, client), false
	keyring := agent.NewKeyring()
	secret, err := os.ReadFile(p.key)
	require.NoError(t, err)
	private, err := ssh.ParseRawPrivateKey(secret)
	require.NoError(t, err)
	require.NoError(t, keyring.Add(agent.AddedKey{PrivateKey: private}))
	return agent.ForwardToAgent(client, keyring)
}

// client is the last connection.
func (p *person) client() *ssh.Client { return p.clients[len(p.clients)-1] }

// goes ends the person's sessions.
func (p *person) goes() {
	for _, client := range p.clients {
		_ = client.Close()
	}
}

// runs is what the person's script prints in the login pod, where "ssh -A" leads to.
func (p *person) runs(t *testing.T, script string) (string, error) {
	t.Helper()
	session, err := p.client().NewSession()
	require.NoError(t, err)
	defer session.Close()
	if !p.forwards {
		require.NoError(t, agent.RequestAgentForwarding(session), "sshd grants it once for a connection")
		p.forwards = true
	}
	out, err := session.CombinedOutput(script)
	return strings.TrimSpace(string(out)), err
}

// submits is a job by sbatch that lasts, and one by REST with the person's own token.
const submits = `set -e
id -nG
sbatch --parsable --chdir=/tmp --mem=40 -w %s --wrap 'sleep 5000'
token=$(scontrol token lifespan=900)
curl --fail -sS -H "X-SLURM-USER-TOKEN: ${token#SLURM_JWT=}" -H 'Content-Type: application/json' \
  --data '{"job": {"script": "#!/bin/sh\ntrue\n", "name": "rest", "current_working_directory": "/tmp",
    "memory_per_node": {"set": true, "number": 40}, "environment": ["PATH=/usr/bin:/bin"]}}' \
  http://slurm-slurmrestd:6820/slurm/v0.0.42/job/submit >/dev/null
`

// five people come in by ssh, submit by sbatch and by REST, reach their jobs' nodes and no others, and are charged.
func five(people []*person) func(*testing.T, *cluster) {
	return func(t *testing.T, c *cluster) {
		comeAndSubmit(t, c, people)
		leavesTheList(t, c, people)
		charged(t, c, people[:4])
	}
}

// comeAndSubmit has each person have a session and a job that lasts, and be at the job's node.
func comeAndSubmit(t *testing.T, c *cluster, people []*person) {
	until(t, "all have accounts", func() (bool, string) {
		saw := c.ask(t, "sacctmgr -n -P show assoc account=physics format=user | sort | xargs")
		return saw == "ida jan kim lea max", saw
	})
	for _, p := range people {
		until(t, p.name+" comes in", func() (bool, string) {
			err := p.comesIn(t, c)
			return err == nil, fmt.Sprint(err)
		})
		said, err := p.runs(t, fmt.Sprintf(submits, p.node))
		require.NoError(t, err, said)
		groups, id, _ := strings.Cut(said, "\n")
		assert.Equal(t, p.name+" physics", groups)
		p.job = job{c, id}
	}
	for _, p := range people {
		p.job.becomes(t, "RUNNING")
		p.reachesItsNode(t)
	}
	said, err := people[0].runs(t, "curl --fail -sS -H 'X-SLURM-USER-TOKEN: none' http://slurm-slurmrestd:6820/slurm/v0.0.42/nodes/")
	require.Error(t, err, "without a token")
	assert.NotContains(t, said, "slurm-cpu-0")
}

// leavesTheList: max is taken out of users.
func leavesTheList(t *testing.T, c *cluster, people []*person) {
	dir, err := os.MkdirTemp("", "users-") // TempDir has the case's name, in which helm takes a comma for the path's end
	require.NoError(t, err)
	defer func() { assert.NoError(t, os.RemoveAll(dir)) }()
	values := filepath.Join(dir, "four.yaml")
	require.NoError(t, os.WriteFile(values, []byte(usersValue(people[:4])), 0o600))
	c.upgrade(t, "-f", values)
	// The kubelet would look at the volumes within about a minute.
	c.kubectl(t, "annotate", "pod", "slurm-login-0", "slurm-slurmctld-0", "e2e/users=4", "--overwrite")
	leaves(t, c, people, func() time.Time {
		return c.moment(t, "slurm-login-0", "stat", "-c", "%.Y", "/var/lib/extrausers/..data")
	})
}

// leaves: the last one's session, job and key end within a minute of the time at which that is known in the login pod, and
// nobody else's do.
func leaves(t *testing.T, c *cluster, people []*person, known func() time.Time) {
	others, leaver := people[:4], people[4]
	ended := make(chan struct{})
	go func() {
		_ = leaver.client().Wait() // it is cut off
		close(ended)
	}()
	until(t, "the session of who has left has ended", func() (bool, string) {
		select {
		case <-ended:
			return true, ""
		default:
			return false, c.ask(t, "slurmlet status")
		}
	})
	until(t, "his job has ended", func() (bool, string) {
		saw := c.ask(t, "sacct -n -P -X -o User,Account,State -j "+leaver.job.id)
		return strings.HasPrefix(saw, leaver.name+"|physics|CANCELLED"), saw
	})
	now := c.moment(t, "slurm-login-0", "date", "+%s.%N")
	assert.Less(t, now.Sub(known()), time.Minute, "since it is known")
	require.Error(t, leaver.comesIn(t, c), "he does not come in again")
	goOn(t, others)
}

// goOn: the people's sessions and jobs are there.
func goOn(t *testing.T, people []*person) {
	t.Helper()
	for _, p := range people {
		said, err := p.runs(t, "id -un")
		require.NoError(t, err, "%s: %s", p.name, said)
		assert.Equal(t, "RUNNING", p.job.is(t, "JobState"), p.name)
	}
}

// reachesItsNode: the session belongs to the job, and where the person has no job there is none.
func (p *person) reachesItsNode(t *testing.T) {
	t.Helper()
	said, err := p.runs(t, "ssh -o StrictHostKeyChecking=accept-new "+p.node+" 'hostname; id -un; cat /proc/self/cgroup'")
	require.NoError(t, err, said)
	lines := strings.Split(said, "\n") // with what ssh itself says among them
	assert.Subset(t, lines, []string{p.node, p.name})
	assert.Contains(t, said, "/step_extern/")
	said, err = p.runs(t, "ssh -o StrictHostKeyChecking=accept-new "+p.other+" hostname")
	require.Error(t, err, said)
	assert.Contains(t, said, "you have no active jobs on this node")
}

// charged: sshare has what all have used, and sacct both jobs of each. Without AccountingStorageEnforce, slurmctld counts what
// runs at its look of each minute (PriorityCalcPeriod), so the jobs run until then.
func charged(t *testing.T, c *cluster, people []*person) {
	until(t, "sshare has what all have used", func() (bool, string) {
		saw := c.ask(t, "sshare -a -n -P -A physics -o User,RawUsage")
		for _, p := range people {
			if !strings.Contains(saw, p.name+"|") || strings.Contains(saw, p.name+"|0") {
				return false, saw
			}
		}
		return true, ""
	})
	for _, p := range people {
		said, err := p.runs(t, "scancel "+p.job.id)
		require.NoError(t, err, said)
	}
	for _, p := range people {
		until(t, "sacct has the jobs of "+p.name, func() (bool, string) {
			saw, err := p.runs(t, "sacct -n -P -X -o User,Account,JobName,State | sort")
			return err == nil && saw == p.name+"|physics|rest|COMPLETED\n"+p.name+"|physics|wrap|CANCELLED by "+p.uid, saw
		})
	}
}
