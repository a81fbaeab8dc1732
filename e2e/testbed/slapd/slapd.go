// Package slapd is a directory of people for tests: OpenLDAP's slapd over TLS alone, with the users' public keys.
//
// Files are in Dir of a pod, and Run is its command. Who wants to change the directory has With do so.
package slapd

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
	"time"
)

// Name is the pod's, and that of the certificate.
const Name = "directory"

// Dir is where Files are.
const Dir = "/etc/directory"

// Base is where people are.
const Base = "dc=example"

// conf has OpenSSH's schema for public keys (LPK), which OpenLDAP does not ship.
const conf = `include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
attributetype ( 1.3.6.1.4.1.24552.500.1.1.1.13 NAME 'sshPublicKey' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
objectclass ( 1.3.6.1.4.1.24552.500.1.1.2.0 NAME 'ldapPublicKey' SUP top AUXILIARY MAY ( sshPublicKey $ uid ) )
pidfile /run/slapd.pid
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCACertificateFile ` + Dir + `/ca.crt
TLSCertificateFile ` + Dir + `/ca.crt
TLSCertificateKeyFile ` + Dir + `/ca.key
security tls=1
database mdb
maxsize 33554432
suffix "` + Base + `"
rootdn "cn=admin,` + Base + `"
directory /var/lib/directory
`

// Run is the shell script that starts slapd again whenever it ends, but not while /run/hold is there.
const Run = `mkdir -p /var/lib/directory; cp ` + Dir + `/slapd.conf /run/slapd.conf
slapadd -f /run/slapd.conf -l ` + Dir + `/people.ldif
trap 'kill $(cat /run/slapd.pid); exit' TERM
while :; do
	slapd -d 0 -h ldaps:/// -f /run/slapd.conf & wait || :
	while [ -e /run/hold ]; do sleep 0.1; done
done
`

// Off is the shell script after which slapd is off.
const Off = `touch /run/hold
if [ -e /run/slapd.pid ]; then kill $(cat /run/slapd.pid); fi
while [ -e /run/slapd.pid ]; do sleep 0.1; done
`

// On is the shell script that ends Off.
const On = "rm /run/hold\n"

// With has slapd be off while a shell command changes its files.
func With(change string) string { return Off + change + "\n" + On }

// Lock is a command for With: the account has expired.
func Lock(name string) string {
	return fmt.Sprintf(`printf 'dn: uid=%s,%s\nchangetype: modify\nadd: shadowExpire\nshadowExpire: 1\n' | slapmodify -f /run/slapd.conf`, name, Base)
}

// Remove is a command for With: there is no such account any more.
func Remove(name string) string {
	return fmt.Sprintf(`printf 'dn: uid=%s,%s\nchangetype: delete\n' | slapmodify -f /run/slapd.conf`, name, Base)
}

// Person is somebody whom the directory knows, whose own group has the person's name and number.
type Person struct {
	Name string
	UID  int
	// Key is the public one, as in authorized_keys.
	Key string
	// Group and GID are those of a further group; empty for none.
	Group string
	GID   int
}

func (p Person) entry() string {
	return fmt.Sprintf(`
dn: uid=%[1]s,%[4]s
objectClass: account
objectClass: posixAccount
objectClass: ldapPublicKey
objectClass: shadowAccount
uid: %[1]s
cn: %[1]s
uidNumber: %[2]d
gidNumber: %[2]d
homeDirectory: /home/%[1]s
loginShell: /bin/sh
sshPublicKey: %[3]s
`, p.Name, p.UID, p.Key, Base) + group(p.Name, p.UID)
}

func group(name string, gid int) string {
	return fmt.Sprintf("\ndn: cn=%[1]s,%[3]s\nobjectClass: posixGroup\ncn: %[1]s\ngidNumber: %[2]d\n", name, gid, Base)
}

// entries is the directory in LDIF (ldif(5)).
func entries(people []Person) string {
	var text strings.Builder
	text.WriteString("dn: " + Base + "\nobjectClass: dcObject\nobjectClass: organization\no: example\ndc: example\n")
	groups := map[string]string{}
	var names []string
	for _, p := range people {
		text.WriteString(p.entry())
		if p.Group == "" {
			continue
		}
		if groups[p.Group] == "" {
			groups[p.Group] = group(p.Group, p.GID)
			names = append(names, p.Group)
		}
		groups[p.Group] += "memberUid: " + p.Name + "\n"
	}
	for _, name := range names {
		text.WriteString(groups[name])
	}
	return text.String()
}

// Files are those of a directory. Its certificate is its own authority: ca.crt.
func Files(people []Person) (map[string][]byte, error) {
	certificate, key, err := selfSigned()
	return map[string][]byte{
		"slapd.conf": []byte(conf), "people.ldif": []byte(entries(people)), "ca.crt": certificate, "ca.key": key,
	}, err
}

func selfSigned() (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: Name}, DNSNames: []string{Name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}

// SSSD is an sssd.conf for the directory, with further lines for its domain.
func SSSD(more string) string {
	return `[sssd]
services = nss, pam, ssh
domains = site
[domain/site]
id_provider = ldap
auth_provider = ldap
ldap_uri = ldaps://` + Name + `
ldap_search_base = ` + Base + "\n" + more
}

// Locks are lines for SSSD: who is locked by Lock is refused, and slapd is looked for sooner than by default.
const Locks = `access_provider = ldap
ldap_access_order = expire
ldap_account_expire_policy = shadow
offline_timeout = 2
offline_timeout_max = 4
`
