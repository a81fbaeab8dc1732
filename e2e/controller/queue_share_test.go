//go:build e2e

package controller

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

const (
	// slurmID is the user slurm of the root file systems.
	slurmID  = 64030
	database = `set -eu
mkdir -p /run/mysqld /run/mysql
mariadb-install-db --user=root --datadir=/run/mysql --skip-test-db --auth-root-authentication-method=normal >/dev/null
printf '%s\n' "CREATE USER slurm@'%' IDENTIFIED BY 'secret';" "GRANT ALL ON slurm_acct_db.* TO slurm@'%';" >/run/mysqld/init.sql
exec mariadbd --user=root --datadir=/run/mysql --socket=/run/mysqld/mysqld.sock --bind-address=` + native.Address + ` --skip-name-resolve \
  --init-file=/run/mysqld/init.sql --innodb-buffer-pool-size=32M --innodb-log-file-size=64M --innodb-lock-wait-timeout=900 \
  --loose-innodb-snapshot-isolation=OFF --performance-schema=OFF`
	slurmdbdConf = `DbdHost=` + native.Host + `
SlurmUser=slurm
AuthType=auth/slurm
PidFile=/run/slurmctld/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=` + native.Address + `
StorageUser=slurm
StoragePass=secret
StorageLoc=slurm_acct_db
`
	// shareConf has priorities of fair share alone, which Slurm computes each minute.
	shareConf = `AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=` + native.Host + `
PriorityType=priority/multifactor
PriorityWeightFairshare=100000
PriorityCalcPeriod=1
PriorityDecayHalfLife=1-0
`
)

// fairShare: of a namespace's user and a Slurm user with equal shares, the one who has had less goes first.
func fairShare(q *queueBed) {
	q.withAccounting()
	q.command("sacctmgr", "--immediate", "add", "account", "science")
	for _, user := range []string{"alice", "nobody"} {
		q.command("sacctmgr", "--immediate", "add", "user", user, "account=science", "fairshare=1")
	}
	q.gang("uses", queueNodes, 20*time.Second)
	q.complete("uses")
	q.turn("alice's pods have run", true)
	q.becomes(q.sbatch("srun -N4 sleep 60", "--uid=nobody", "--nodes=4", "--exclusive"), "COMPLETED")
	q.turn("nobody's job has run", false)
}

// turn has a pod and a Slurm user's job wait until Slurm has the one before the other, and then run.
func (q *queueBed) turn(when string, slurmFirst bool) {
	hog := q.sbatch("sleep 1000", "--nodes=4", "--exclusive")
	q.becomes(hog, "RUNNING")
	q.count++
	p := q.runs(fmt.Sprintf("share-%d", q.count), time.Second, nil)
	pod := q.job(p.Name)
	job := q.sbatch("srun -N4 true", "--uid=nobody", "--nodes=4", "--exclusive")
	priority := func(id string) (n int) {
		_, _ = fmt.Sscan(q.command("squeue", "--noheader", "--jobs="+id, "--format=%Q"), &n)
		return n
	}
	q.eventually(patience, "Slurm has computed the shares", func() bool { return (priority(job) > priority(pod)) == slurmFirst && priority(job) != priority(pod) })
	q.Logf("%s: the pod's job has the priority %d, and the user's %d", when, priority(pod), priority(job))
	q.command("scancel", hog)
	q.becomes(job, "COMPLETED")
	q.phase(p, corev1.PodSucceeded)
	q.becomes(pod, "COMPLETED")
	assert.Equal(q, slurmFirst, q.started(job) < q.started(pod), "who has begun first")
}

// started is when a job has begun, as Slurm writes it.
func (q *queueBed) started(job string) string {
	_, rest, _ := strings.Cut(q.command("scontrol", "show", "job", job), "StartTime=")
	at, _, _ := strings.Cut(rest, " ")
	return at
}

// withAccounting gives the cluster a database and slurmdbd.
func (q *queueBed) withAccounting() {
	conf := filepath.Join(q.slurm.Root, "etc/slurm/slurmdbd.conf")
	require.NoError(q, os.WriteFile(conf, []byte(slurmdbdConf), 0o600))
	require.NoError(q, os.Chown(conf, slurmID, slurmID))
	run := filepath.Join(q.slurm.Root, "run/slurmdbd")
	require.NoError(q, errors.Join(os.Mkdir(run, 0o755), os.Chown(run, slurmID, slurmID)))
	log, err := os.Create(q.file("mariadb.log"))
	require.NoError(q, err)
	server := q.slurm.Command("/bin/sh", "-c", database)
	server.Stdout, server.Stderr = log, log
	require.NoError(q, server.Start())
	said := ""
	defer func() {
		if q.Failed() {
			text, _ := os.ReadFile(log.Name())
			q.Logf("%s\n%s", said, text[max(0, len(text)-3000):])
		}
	}()
	q.eventually(patience, "the database answers", func() bool {
		out, err := q.slurm.Command("/usr/bin/mariadb", "--host="+native.Address, "--skip-ssl", "--user=slurm", "--password=secret", "--execute=SELECT 1").CombinedOutput()
		said = string(out)
		return err == nil
	})
	path := filepath.Join(q.slurm.Root, "etc/slurm/slurm.conf")
	text, err := os.ReadFile(path)
	require.NoError(q, err)
	require.NoError(q, os.WriteFile(path, append(text, shareConf...), 0o644))
	dbd := q.slurm.Command("/usr/sbin/slurmdbd", "-D")
	dbd.SysProcAttr.Credential = &syscall.Credential{Uid: slurmID, Gid: slurmID}
	dbd.Stdout, dbd.Stderr = log, log
	require.NoError(q, dbd.Start())
	q.eventually(patience, "slurmdbd answers", func() bool {
		out, err := q.slurm.Command("/usr/bin/sacctmgr", "--immediate", "add", "cluster", "native").CombinedOutput()
		said = string(out)
		return err == nil || strings.Contains(said, "already exists")
	})
	require.NoError(q, q.slurm.Slurmctld.Process.Signal(unix.SIGTERM)) // it reads shares of slurmdbd when it starts
	_ = q.slurm.Slurmctld.Wait()                                       // its status does not matter
	require.NoError(q, q.slurm.Control(q.heard))
}
