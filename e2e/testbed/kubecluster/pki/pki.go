// Package pki makes the keys and certificates of a cluster: who is who is told
// by the names in client certificates, as Kubernetes wants them
// (kubernetes.io/docs/reference/access-authn-authz/authentication).
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Pair is a certificate with its key, both in PEM.
type Pair struct{ Certificate, Key []byte }

// Authority signs the certificates of one cluster.
type Authority struct {
	Pair
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

// lifetime is long enough for any bed.
const lifetime = 365 * 24 * time.Hour

// New makes an authority that nobody else trusts.
func New(name string) (*Authority, error) {
	a := &Authority{}
	err := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, &a.Pair)
	return a, err
}

// Server makes a server's certificate for names and addresses.
func (a *Authority) Server(hosts ...string) (Pair, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: hosts[0]}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	var p Pair
	return p, a.sign(template, &p)
}

// Client makes the certificate of a user of the API, who is in groups.
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	var p Pair
	return p, a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: user, Organization: groups}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, &p)
}

// sign makes a key and its certificate; an authority's own signs itself.
func (a *Authority) sign(template *x509.Certificate, to *Pair) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("cannot make a key: %v", err)
	}
	a.serial++
	template.SerialNumber = big.NewInt(a.serial)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(lifetime)
	if template.IsCA {
		a.certificate, a.key = template, key
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("cannot make a certificate for %s: %v", template.Subject.CommonName, err)
	}
	to.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	if template.IsCA {
		if a.certificate, err = x509.ParseCertificate(signed); err != nil {
			return fmt.Errorf("cannot make a certificate authority: %v", err)
		}
	}
	to.Key, err = encode(key)
	return err
}

// Key makes a key alone, in PEM: that of service accounts' tokens.
func Key() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %v", err)
	}
	return encode(key)
}

func encode(key *ecdsa.PrivateKey) ([]byte, error) {
	text, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("cannot write a key: %v", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text}), nil
}
