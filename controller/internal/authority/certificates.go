package authority

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// pair is a certificate authority with its key.
type pair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// backdate makes a new certificate good on machines whose clock is behind.
const backdate = 5 * time.Minute

// newPair makes an authority that lives until now+lifetime.
func newPair(now time.Time, lifetime time.Duration) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	template, err := template(now, lifetime)
	if err != nil {
		return nil, err
	}
	// Two authorities of one name would be one to a client that looks for an issuer.
	template.Subject = pkix.Name{CommonName: "slurmlet " + now.UTC().Format(time.RFC3339Nano)}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("cannot make the certificate of an authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate of an authority: %w", err)
	}
	return &pair{certificate, key}, nil
}

func template(now time.Time, lifetime time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("cannot make a serial number: %w", err)
	}
	return &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-backdate), NotAfter: now.Add(lifetime)}, nil
}

// made is when the authority was made.
func (p *pair) made() time.Time { return p.certificate.NotBefore.Add(backdate) }

// sign makes a server's certificate with a key of its own, which never leaves this process.
func (p *pair) sign(now time.Time, lifetime time.Duration, names []string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	template, err := template(now, lifetime)
	if err != nil {
		return nil, err
	}
	if template.NotAfter.After(p.certificate.NotAfter) {
		template.NotAfter = p.certificate.NotAfter
	}
	template.Subject = pkix.Name{CommonName: "slurmlet-controller"}
	template.DNSNames = names
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, p.certificate, key.Public(), p.key)
	if err != nil {
		return nil, fmt.Errorf("cannot sign a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("cannot read a certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

const (
	certificateType = "CERTIFICATE"
	keyType         = "PRIVATE KEY"
)

// encode writes certificates as PEM.
func encode(all ...*x509.Certificate) []byte {
	var b bytes.Buffer
	for _, c := range all {
		_ = pem.Encode(&b, &pem.Block{Type: certificateType, Bytes: c.Raw}) // into memory
	}
	return b.Bytes()
}

func (p *pair) encodeKey() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		return nil, fmt.Errorf("cannot write a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: der}), nil
}

// decode reads the certificates of authorities, at most some, from PEM.
func decode(text []byte) (all []*x509.Certificate, err error) {
	for len(bytes.TrimSpace(text)) > 0 {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil || block.Type != certificateType {
			return nil, errors.New("want certificates in PEM")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil:
			return nil, fmt.Errorf("cannot read a certificate: %w", err)
		case !c.IsCA || len(all) == mostTrusted:
			return nil, errors.New("want the certificates of a few authorities")
		}
		all = append(all, c)
	}
	return all, nil
}

// mostTrusted bounds what a Secret may hold.
const mostTrusted = 8

// decodePair reads an authority, whose key must be its certificate's.
func decodePair(certificate, key []byte) (*pair, error) {
	all, err := decode(certificate)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, errors.New("want one certificate")
	}
	block, rest := pem.Decode(key)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("want one key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("cannot read the key") // its text stays out of the log
	}
	private, is := parsed.(*ecdsa.PrivateKey)
	if !is || !private.PublicKey.Equal(all[0].PublicKey) {
		return nil, errors.New("the key is not the certificate's")
	}
	return &pair{all[0], private}, nil
}

// distinct are certificates without those that come twice.
func distinct(all []*x509.Certificate) (some []*x509.Certificate) {
	for _, c := range all {
		if !slices.ContainsFunc(some, c.Equal) {
			some = append(some, c)
		}
	}
	return some
}
