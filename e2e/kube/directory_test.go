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

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/slapd"
)

// slapdObjects are a directory's pod and its Service.
const slapdObjects = `apiVersion: v1
kind: Service
metadata: {name: ` + slapd.Name + `}
spec:
  selector: {app: ` + slapd.Name + `}
  ports: [{port: 636}]
---
apiVersion: v1
kind: Pod
metadata: {name: ` + slapd.Name + `, labels: {app: ` + slapd.Name + `}}
spec:
  terminationGracePeriodSeconds: 5
  automountServiceAccountToken: false
  volumes: [{name: config, secret: {secretName: ` + slapd.Name + `, defaultMode: 0400}}]
  containers:
    - name: slapd
      image: %s
      imagePullPolicy: Never
      volumeMounts: [{name: config, mountPath: ` + slapd.Dir + `}]
      readinessProbe: {tcpSocket: {port: 636}, periodSeconds: 2}
      command: [/bin/sh, -ec, %q]
`

// offFor is how long slapd is off.
const offFor = 10 * time.Minute

// fiveOfADirectory: five people whom a directory alone knows come in through the login pods' Service, submit, reach their
// jobs' nodes and are charged. While slapd is off, nothing of theirs ends; the one who is locked loses all.
func fiveOfADirectory(t *testing.T, c *cluster) {
	if os.Getenv("SLURMLET_E2E_FULL") == "" {
		t.Skip("slapd is off for ten minutes: SLURMLET_E2E_FULL=1 plays it")
	}
	people, end := c.withDirectory(t)
	defer end()
	comeAndSubmit(t, c, people)

	c.slapd(t, slapd.Off)
	for off := time.Now(); time.Since(off) < offFor; {
		goOn(t, people)
		<-time.After(offFor / 20)
	}
	for _, p := range people {
		require.NoError(t, p.comesIn(t, c), "%s: the key is known", p.name)
	}
	goOn(t, people)
	c.slapd(t, slapd.On)

	locked := c.moment(t, "slurm-login-0", "date", "+%s.%N")
	c.slapd(t, slapd.With(slapd.Lock("max")))
	leaves(t, c, people, func() time.Time { return locked })
	charged(t, c, people[:4])
}

// slapd runs a script in the directory's pod.
func (c *cluster) slapd(t *testing.T, script string) {
	t.Helper()
	c.kubectl(t, "exec", slapd.Name, "--", "sh", "-ec", script)
}

// withDirectory installs the chart with slapd, and returns whom it knows.
func (c *cluster) withDirectory(t *testing.T) (people []*person, end func()) {
	dir := t.TempDir()
	people = fivePeople(t, dir)
	var known []slapd.Person
	var accounts []string
	for _, p := range people {
		uid, err := strconv.Atoi(p.uid)
		require.NoError(t, err)
		known = append(known, slapd.Person{Name: p.name, UID: uid, Key: p.public, Group: "physics", GID: 3000})
		accounts = append(accounts, p.name+": physics")
	}
	files, err := slapd.Files(known)
	require.NoError(t, err)
	files["sssd.conf"] = []byte(slapd.SSSD(slapd.Locks))
	files["values.yaml"] = fmt.Appendf(nil, `sssd: {secret: site-sssd, ca: {configMap: site-ca}}
accounts: {accounts: {physics: {}}, users: {%s}}
%s`, strings.Join(accounts, ", "), withPeople)
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	from := func(names ...string) (args []string) {
		for _, name := range names {
			args = append(args, "--from-file="+filepath.Join(dir, name))
		}
		return args
	}
	objects := []string{"pod/" + slapd.Name, "service/" + slapd.Name, "secret/" + slapd.Name, "secret/site-sssd", "configmap/site-ca"}
	c.kubectl(t, append([]string{"create", "secret", "generic", slapd.Name}, from("slapd.conf", "people.ldif", "ca.crt", "ca.key")...)...)
	c.kubectl(t, append([]string{"create", "secret", "generic", "site-sssd"}, from("sssd.conf")...)...)
	c.kubectl(t, append([]string{"create", "configmap", "site-ca"}, from("ca.crt")...)...)
	require.NoError(t, c.Apply(t.Context(), fmt.Sprintf(slapdObjects, plainImage+c.version, slapd.Run)))
	c.kubectl(t, "wait", "--for=condition=Ready", "pod/"+slapd.Name, "--timeout", limit.String())
	accounting(filepath.Join(dir, "values.yaml"))(t, c)
	return people, func() {
		for _, p := range people {
			p.goes() // the login pod waits for sessions
		}
		c.kubectl(t, append([]string{"delete"}, objects...)...)
		uninstall(t, c)
	}
}
