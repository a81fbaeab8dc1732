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
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
	"github.com/slurmlet/slurmlet/e2e/testbed/slapd"
)

// sssdPod is sssd beside slurmctld: a container of the chart's slurmctld pod, which shares its sockets.
func sssdPod(conf, pipes sandbox.Volume) sandbox.PodSpec {
	conf.Path = "/etc/slurmlet/sssd"
	return sandbox.PodSpec{
		Name: "sssd", Restart: "Always", Volumes: []sandbox.Volume{conf, pipes},
		Args: []string{"/bin/sh", "-euc", `install -d -g root -m 00755 /var/lib/sss/pipes
install -d -g root -m 00700 /etc/sssd /var/lib/sss/pipes/private
install -m 600 /etc/slurmlet/sssd/* /etc/sssd/
exec sssd -i --logger=stderr`},
	}
}

// awayFor is how long slapd is off: ten minutes where there is time.
func awayFor() time.Duration {
	if withTime() {
		return 10 * time.Minute
	}
	return 17 * time.Second // a question to sssd
}

// leaversOfTheDirectory: slapd that is off, that answers with errors, or whose tree is empty ends no key, session or job, and
// the one who is locked, or deleted, loses all within a minute.
func leaversOfTheDirectory(t *testing.T, c *cluster) {
	file := t.TempDir() + "/key"
	require.NoError(t, remote.MakeKey(file))
	key, err := remote.ReadKey(file)
	require.NoError(t, err)
	people := []string{"ada", "bea", "cid", "dan", "eve"}
	var known []slapd.Person
	for i, name := range people {
		known = append(known, slapd.Person{Name: name, UID: 20001 + i, Key: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))})
	}
	pod, ca := slapdPod(t, known)
	// no agent is in sssd's own pod, and nobody adds the CA there
	conf := sssdOf(ca, "ldap_tls_cacert = /etc/sssd/ca.crt\n"+slapd.Locks)
	pipes := sandbox.Volume{Name: "sss-pipes", Path: "/var/lib/sss/pipes", Shared: true, Mode: 0o755}
	login, node, slurmctld := c.Login(), c.Node(2), c.Slurmctld()
	login.Name = "login-2"
	login.Volumes, node.Volumes = append(login.Volumes, conf), append(node.Volumes, conf)
	slurmctld.Volumes = append(slurmctld.Volumes, pipes)
	require.NoError(t, c.CreateAll(t.Context(), pod, sssdPod(conf, pipes)))
	defer func() {
		for _, pod := range []string{"sssd", slapd.Name} {
			assert.NoError(t, c.Delete(t.Context(), pod, grace))
		}
	}()
	c.replace(t, slurmctld)
	defer c.replace(t, c.Slurmctld())
	require.NoError(t, c.CreateAll(t.Context(), login, node))
	defer func() { assert.NoError(t, c.Delete(t.Context(), login.Name, grace)) }()
	defer c.removeNode(t, node.Name)
	c.waitReady(t, login.Name, node.Name)

	agents := []string{sandbox.Slurmctld, login.Name}
	guests := map[string]*guest{}
	for _, name := range people {
		until(t, name+" may log in", func() (bool, string) {
			client, err := dialAs(t, c, name, login.Name, key)
			if err == nil {
				_ = client.Close()
			}
			return err == nil, fmt.Sprint(err)
		})
		guests[name] = c.comesIn(t, name, login.Name, key, "sbatch --mem=10 -w "+node.Name)
	}
	goOn := func(names ...string) {
		t.Helper()
		for i, name := range people {
			if slices.Contains(names, name) {
				c.goesOn(t, 20001+i, guests[name], login.Name)
			}
		}
	}
	asked := func(since time.Time, what string) {
		t.Helper()
		for _, pod := range agents {
			until(t, "the agent of "+pod+" has asked "+what, func() (bool, string) {
				s := c.agent(t, pod).Leavers
				return s.Asked.After(since), fmt.Sprintf("%+v", s)
			})
		}
	}
	asked(time.Now(), "for all")

	c.run(t, slapd.Name, "sh", "-ec", slapd.Off)
	asked(time.Now().Add(awayFor()), "while slapd is off")
	c.waitFor(t, agents)
	again, err := dialAs(t, c, "eve", login.Name, key)
	require.NoError(t, err, "eve's key is known")
	require.NoError(t, again.Close())
	goOn(people...)
	slapdWith := func(change string) {
		t.Helper()
		c.run(t, slapd.Name, "sh", "-ec", slapd.With(change))
	}
	if withTime() {
		slapdWith("echo 'restrict search' >>/run/slapd.conf")
		asked(time.Now().Add(time.Minute), "while slapd refuses to search")
		c.waitFor(t, agents)
	}
	slapdWith("cp " + slapd.Dir + "/slapd.conf /run/slapd.conf; mv /var/lib/directory /var/lib/people; mkdir /var/lib/directory")
	c.waitFor(t, agents, people...)
	goOn(people...)
	slapdWith("rm -r /var/lib/directory; mv /var/lib/people /var/lib/directory")
	c.waitFor(t, agents)
	goOn(people...)

	slapdWith(slapd.Lock("ada"))
	c.isOver(t, 20001, guests["ada"], login.Name)
	_, err = dialAs(t, c, "ada", login.Name, key)
	require.Error(t, err, "ada is locked")
	if !withTime() {
		goOn(people[1:]...)
		return
	}
	slapdWith(slapd.Remove("bea"))
	c.isOver(t, 20002, guests["bea"], login.Name)
	_, err = dialAs(t, c, "bea", login.Name, key)
	require.Error(t, err, "bea is gone")
	goOn("cid", "dan", "eve")
}
