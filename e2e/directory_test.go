//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
)

// directory is the pod's name and its certificate's.
const directory = "directory"

// slapdConf is that of a directory whose users have public keys (OpenSSH's LPK schema).
const slapdConf = `include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
attributetype ( 1.3.6.1.4.1.24552.500.1.1.1.13 NAME 'sshPublicKey' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
objectclass ( 1.3.6.1.4.1.24552.500.1.1.2.0 NAME 'ldapPublicKey' SUP top AUXILIARY MAY ( sshPublicKey $ uid ) )
pidfile /run/slapd.pid
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCACertificateFile /etc/directory/ca.crt
TLSCertificateFile /etc/directory/ca.crt
TLSCertificateKeyFile /etc/directory/ca.key
security tls=1
database mdb
maxsize 33554432
suffix "dc=example"
rootdn "cn=admin,dc=example"
directory /var/lib/directory
`

// person is an entry of the directory; the group has the user's name and number.
const person = `
dn: uid=%[1]s,dc=example
objectClass: account
objectClass: posixAccount
objectClass: ldapPublicKey
uid: %[1]s
objectClass: shadowAccount
cn: %[1]s
uidNumber: %[2]d
gidNumber: %[2]d
homeDirectory: /home/%[1]s
loginShell: /bin/sh
sshPublicKey: %[3]s

dn: cn=%[1]s,dc=example
objectClass: posixGroup
cn: %[1]s
gidNumber: %[2]d
`

// slapd is the directory. It is started again whenever it ends, but not while /run/hold is there.
func slapd(entries string, ca, key []byte) sandbox.PodSpec {
	return sandbox.PodSpec{
		Name: directory, Restart: "Always",
		Args: []string{"/bin/sh", "-ec", `mkdir -p /var/lib/directory; cp /etc/directory/slapd.conf /run/slapd.conf
slapadd -f /run/slapd.conf -l /etc/directory/people.ldif
trap 'kill $(cat /run/slapd.pid); exit' TERM
while :; do
	slapd -d 0 -h ldaps:/// -f /run/slapd.conf & wait || :
	while [ -e /run/hold ]; do sleep 0.1; done
done`},
		Volumes: []sandbox.Volume{{Name: "config", Path: "/etc/directory", Files: map[string]sandbox.File{
			"slapd.conf": {Data: []byte(slapdConf)}, "people.ldif": {Data: []byte(entries)}, "ca.crt": {Data: ca}, "ca.key": {Data: key, Mode: 0o600},
		}}},
	}
}

// sssdOf is sssd's configuration for the directory.
func sssdOf(ca []byte, more string) sandbox.Volume {
	return sandbox.Volume{Name: "sssd-conf", Path: "/etc/sssd", Projected: true, Files: map[string]sandbox.File{
		"ca.crt": {Mode: 0o400, Data: ca},
		"sssd.conf": {Mode: 0o644, Data: []byte(`[sssd]
services = nss, pam, ssh
domains = site
[domain/site]
id_provider = ldap
auth_provider = ldap
ldap_uri = ldaps://` + directory + `
ldap_search_base = dc=example
` + more)},
	}}
}

// directorysUsers: two people whom only a directory knows log in by the keys that it has of them, have homes, and run jobs.
// When the directory is away, who was known before comes in, and her job goes on.
func directorysUsers(t *testing.T, c *cluster) {
	file := t.TempDir() + "/key"
	require.NoError(t, remote.MakeKey(file))
	key, err := remote.ReadKey(file)
	require.NoError(t, err)
	public := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))
	ca, private := selfSigned(t, directory)
	entries := "dn: dc=example\nobjectClass: dcObject\nobjectClass: organization\no: example\ndc: example\n" +
		fmt.Sprintf(person, "ada", 20001, public) + fmt.Sprintf(person, "bea", 20002, public)
	require.NoError(t, c.Create(t.Context(), slapd(entries, ca, private)))
	there := true
	defer func() {
		if there {
			assert.NoError(t, c.Delete(t.Context(), directory, grace))
		}
	}()
	sssd := sssdOf(ca, "access_provider = permit\n")
	login, node := c.Login(), c.Node(2)
	login.Name = "login-2"
	login.Volumes, node.Volumes = append(login.Volumes, sssd), append(node.Volumes, sssd)
	require.NoError(t, c.CreateAll(t.Context(), login, node))
	defer func() { assert.NoError(t, c.Delete(t.Context(), login.Name, grace)) }()
	defer c.removeNode(t, node.Name)
	c.waitReady(t, login.Name, node.Name)

	var client *ssh.Client
	until(t, "ada may log in", func() (bool, string) {
		client, err = dialAs(t, c, "ada", login.Name, key)
		return err == nil, fmt.Sprint(err)
	})
	defer client.Close()
	assert.Equal(t, "ada 20001 /home/ada\n", runSSH(t, client, "cd; echo $(id -un) $(stat -c %u .) $PWD"))
	id := strings.TrimSpace(runSSH(t, client, "sbatch --parsable --chdir=/shared --output=/shared/%j.out -w "+node.Name+" --wrap 'id -un; "+waits+"'"))
	until(t, "the job runs as ada", func() (bool, string) {
		out, _, _, err := c.Exec(t.Context(), "login", "cat", "/shared/"+id+".out")
		require.NoError(t, err)
		return out == "ada\n", out
	})

	require.NoError(t, c.Delete(t.Context(), directory, grace))
	there = false
	again, err := dialAs(t, c, "ada", login.Name, key)
	require.NoError(t, err, "sssd knows ada and her key")
	defer again.Close()
	assert.Equal(t, "ada\n", runSSH(t, again, "id -un"))
	_, err = dialAs(t, c, "bea", login.Name, key)
	require.ErrorContains(t, err, "unable to authenticate", "nobody has asked for bea before")
	assert.Equal(t, "ada\n", runSSH(t, client, "id -un"), "the session goes on")
	c.let(t, id)
	c.waitJob(t, id, "COMPLETED")
	assert.Regexp(t, `^ada\n[0-9.]+\n$`, c.run(t, "login", "cat", "/shared/"+id+".out"))
}

// selfSigned is a certificate, which is its own authority, and its key.
func selfSigned(t *testing.T, host string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}
