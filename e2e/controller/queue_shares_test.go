//go:build e2e

package controller

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

const (
	// slurmID is the user slurm of the root file systems.
	slurmID = 64030
	// database makes slurmdbd's database, as the chart's MariaDB does. slurmdbd would make it, too, and end: libmariadb 11.8.9
	// takes no answer over the connection that comes after one to a database that is not there.
	database = `set -eu
mkdir -p /run/mysqld /run/mysql
mariadb-install-db --user=root --datadir=/run/mysql --skip-test-db --auth-root-authentication-method=normal >/dev/null
printf '%s\n' 'CREATE DATABASE slurm_acct_db;' "CREATE USER slurm@'%' IDENTIFIED BY 'secret';" "GRANT ALL ON slurm_acct_db.* TO slurm@'%';" >/run/mysqld/init.sql
exec mariadbd --user=root --datadir=/run/mysql --socket=/run/mysqld/mysqld.sock --bind-address=` + native.Address + ` --skip-name-resolve \
  --init-file=/run/mysqld/init.sql --innodb-buffer-pool-size=32M --innodb-log-file-size=64M --innodb-lock-wait-timeout=900 \
  --loose-innodb-snapshot-isolation=OFF --performance-schema=OFF`
	slurmdbdConf = `DbdHost=` + native.Host + `
SlurmUser=slurm
AuthType=auth/slurm
PidFile=/run/slurmdbd/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=` + native.Address + `
StorageUser=slurm
StoragePass=secret
StorageLoc=slurm_acct_db
`
	// shareConf has priorities of fair share alone, which Slurm computes each minute. A job's last minute counts where limits are
	// enforced.
	shareConf = `AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=` + native.Host + `
AccountingStorageEnforce=associations,limits
PriorityType=priority/multifactor
PriorityWeightFairshare=100000
PriorityCalcPeriod=1
PriorityDecayHalfLife=1-0
`
)

// fairShare: of a namespace's user and a Slurm user, whose accounts have equal shares, the one goes first who has had less of
// the machines.
func fairShare(q *queueBed) {
	q.withAccounting()
	q.append("etc/passwd", "bob:x:1001:1001::/:/bin/sh\n")
	for account, user := range map[string]string{"biology": "alice", "physics": "bob"} {
		q.command("sacctmgr", "--immediate", "add", "account", account, "fairshare=1")
		q.command("sacctmgr", "--immediate", "add", "user", user, "account="+account, "fairshare=1")
	}
	q.eventually(patience, "slurmctld knows the associations", func() bool {
		text := q.command("scontrol", "show", "assoc_mgr", "flags=assoc")
		return strings.Contains(text, "UserName=alice(") && strings.Contains(text, "UserName=bob(")
	})
	q.gang("uses", queueNodes, 10*time.Second)
	q.complete("uses")
	q.turn("alice's pods have run", true)
	q.becomes(q.sbatch("sleep 40", "--uid=bob", "--nodes=4", "--exclusive"), "COMPLETED")
	q.turn("bob's job has run", false)
}

// turn has a pod and a Slurm user's job wait until Slurm has one before the other, and then run. The one that shall be later is
// the older one.
func (q *queueBed) turn(when string, slurmFirst bool) {
	q.Helper()
	hog := q.sbatch("sleep 1000", "--nodes=4", "--exclusive")
	q.becomes(hog, "RUNNING")
	q.count++
	var p *corev1.Pod
	var pod, job string
	submitPod := func() {
		p = q.runs(fmt.Sprintf("share-%d", q.count), time.Second, nil)
		pod = q.job(p.Name)
	}
	submitJob := func() { job = q.sbatch("sleep 2", "--uid=bob", "--nodes=4", "--exclusive") }
	if slurmFirst {
		submitPod()
		submitJob()
	} else {
		submitJob()
		submitPod()
	}
	var podsPriority, jobsPriority int
	defer func() {
		if q.Failed() {
			q.Logf("the pod's job %s has the priority %d, and the user's %s has %d\n%s\n%s", pod, podsPriority, job, jobsPriority,
				q.command("sshare", "--all", "--format=Account,User,NormShares,RawUsage,FairShare"), q.command("sprio", "--long"))
		}
	}()
	q.eventually(patience, "Slurm has computed the shares", func() bool {
		podsPriority, jobsPriority = q.priority(pod), q.priority(job)
		return min(podsPriority, jobsPriority) > 1 && podsPriority != jobsPriority && (jobsPriority > podsPriority) == slurmFirst
	})
	q.Logf("%s: the pod's job has the priority %d, and the user's %d\n%s", when, podsPriority, jobsPriority,
		q.command("sshare", "--all", "--format=Account,User,NormShares,RawUsage,FairShare"))
	q.command("scancel", hog)
	q.becomes(job, "COMPLETED")
	q.phase(p, corev1.PodSucceeded)
	q.becomes(pod, "COMPLETED")
	assert.Equal(q, slurmFirst, q.started(job) < q.started(pod), "the user's job has begun first")
}

// priority is a job's; 0 while slurmctld does not answer, and 1 until it has computed one.
func (q *queueBed) priority(job string) int {
	out, err := q.slurm.Command("/usr/bin/squeue", "--noheader", "--jobs="+job, "--format=%Q").Output()
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(q, err)
	return n
}

// started is when a job has begun, as Slurm writes it.
func (q *queueBed) started(job string) string {
	_, rest, found := strings.Cut(q.command("scontrol", "show", "job", job), "StartTime=")
	require.True(q, found)
	at, _, _ := strings.Cut(rest, " ")
	return at
}

// withAccounting gives the cluster a database and slurmdbd.
func (q *queueBed) withAccounting() {
	q.Helper()
	log, err := os.Create(q.file("accounting.log"))
	require.NoError(q, err)
	defer log.Close()
	said := ""
	defer func() {
		if q.Failed() {
			text, _ := os.ReadFile(log.Name())
			q.Logf("%s\n%s", said, text[max(0, len(text)-3000):])
		}
	}()
	server := q.slurm.Command("/bin/sh", "-c", database)
	server.Stdout, server.Stderr = log, log
	require.NoError(q, server.Start())
	succeeds := func(program string, args ...string) func() bool {
		return func() bool {
			out, err := q.slurm.Command(program, args...).CombinedOutput()
			said = string(out)
			return err == nil
		}
	}
	q.eventually(patience, "the database answers", succeeds("/usr/bin/mariadb",
		"--host="+native.Address, "--skip-ssl", "--user=slurm", "--password=secret", "--execute=SELECT 1"))

	conf, run := filepath.Join(q.slurm.Root, "etc/slurm/slurmdbd.conf"), filepath.Join(q.slurm.Root, "run/slurmdbd")
	require.NoError(q, errors.Join(os.WriteFile(conf, []byte(slurmdbdConf), 0o600), os.Chown(conf, slurmID, slurmID),
		os.Mkdir(run, 0o755), os.Chown(run, slurmID, slurmID)))
	q.append("etc/slurm/slurm.conf", shareConf)
	dbd := q.slurm.Command("/usr/sbin/slurmdbd", "-D")
	dbd.SysProcAttr.Credential = &syscall.Credential{Uid: slurmID, Gid: slurmID}
	dbd.Stdout, dbd.Stderr = log, log
	require.NoError(q, dbd.Start())
	q.eventually(patience, "slurmdbd answers", succeeds("/usr/bin/sacctmgr", "--immediate", "show", "cluster"))
	back := q.slurmctldAway()
	// slurmctld of 24.11 has made up a ClusterID, and ends where slurmdbd has another one
	require.NoError(q, os.Remove(filepath.Join(q.slurm.Root, "run/slurmctld/state/clustername")))
	back() // it registers its cluster
	q.eventually(patience, "slurmdbd knows the cluster", func() bool {
		return succeeds("/usr/bin/sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=Cluster")() && strings.TrimSpace(said) == "native"
	})
}

// append adds to a file of the cluster's root.
func (q *queueBed) append(path, text string) {
	q.Helper()
	file, err := os.OpenFile(filepath.Join(q.slurm.Root, path), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(q, err)
	_, err = file.WriteString(text)
	require.NoError(q, errors.Join(err, file.Close()))
}
