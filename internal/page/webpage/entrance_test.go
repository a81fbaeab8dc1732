package webpage

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEntrance: a header is believed on loopback, on a unix socket, and from a client with a certificate. The page is
// not served anywhere else.
func TestEntrance(t *testing.T) {
	socket := "unix:" + filepath.Join(t.TempDir(), "s")
	for name, c := range map[string]struct {
		Entrance
		says string
	}{
		"loopback":                         {Entrance{Address: "127.0.0.1:0"}, ""},
		"loopback of IPv6, or none here":   {Entrance{Address: "localhost:0"}, ""},
		"loopback, a proxy":                {Entrance{Address: "127.0.0.1:0", UserHeader: "X-User"}, ""},
		"a unix socket, a proxy":           {Entrance{Address: socket, UserHeader: "X-User"}, ""},
		"all addresses":                    {Entrance{Address: ":0", UserHeader: "X-User"}, "no loopback address"},
		"all addresses, no proxy":          {Entrance{Address: "0.0.0.0:0"}, "no loopback address"},
		"all addresses of IPv6":            {Entrance{Address: "[::]:0", UserHeader: "X-User"}, "no loopback address"},
		"a unix socket, no proxy":          {Entrance{Address: socket}, "want -user-header"},
		"TLS, no proxy":                    {Entrance{Address: ":0", Certificate: "c", Key: "k", ClientCA: "a"}, "want -user-header"},
		"TLS without clients' certificate": {Entrance{Address: ":0", UserHeader: "X-User", Certificate: "c", Key: "k"}, "need each other"},
		"authorities without TLS":          {Entrance{Address: ":0", UserHeader: "X-User", ClientCA: "a"}, "need each other"},
		"a name without authorities":       {Entrance{Address: "127.0.0.1:0", UserHeader: "X-User", ClientName: "proxy"}, "-client-name needs -client-ca"},
		"a unix socket with TLS":           {Entrance{Address: socket, UserHeader: "X-User", Certificate: "c", Key: "k", ClientCA: "a"}, "no TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := c.Listen(t.Context())
			if c.says != "" {
				require.ErrorContains(t, err, c.says)
				return
			}
			require.NoError(t, err)
			require.NoError(t, l.Close())
		})
	}
	_, err := New(Options{Entrance: Entrance{Address: ":0", UserHeader: "X", Certificate: "/no", Key: "/no", ClientCA: "/no"}, Log: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "cannot use the page's certificate")
}

// TestProxyOnASocket: the socket is for its user and group alone.
func TestProxyOnASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := openAt(t, sample(3, 10), Entrance{Address: "unix:" + path, UserHeader: userHeader})
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o660), info.Mode().Perm())
	s.dials = func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "unix", path) }
	s.address = "proxied"
	code, _, body := s.request(t, "GET", "/", as("alice"))
	require.Equal(t, 200, code)
	require.Contains(t, body, "cpu-0000")
	_, _, body = s.request(t, "GET", "/", nil)
	require.NotContains(t, body, "cpu-0000")
}

// issuer signs certificates.
type issuer struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{t: t, dir: t.TempDir()}
	i.key, i.cert = i.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "ca"}})
	i.write("ca.crt", "CERTIFICATE", i.cert.Raw)
	return i
}

func (i *issuer) sign(c *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(i.t, err)
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := i.cert, i.key
	if parent == nil {
		parent, signer = c, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	require.NoError(i.t, err)
	made, err := x509.ParseCertificate(raw)
	require.NoError(i.t, err)
	return key, made
}

func (i *issuer) write(name, kind string, raw []byte) string {
	path := filepath.Join(i.dir, name)
	require.NoError(i.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600))
	return path
}

// pair writes a certificate and its key for a DNS name.
func (i *issuer) pair(file, name string, usage x509.ExtKeyUsage) (certificate, keyFile string) {
	key, made := i.sign(&x509.Certificate{DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{usage}, Subject: pkix.Name{CommonName: name}})
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(i.t, err)
	return i.write(file+".crt", "CERTIFICATE", made.Raw), i.write(file+".key", "PRIVATE KEY", raw)
}

// TestProxyWithACertificate: over the network, the page answers clients whose certificate has the proxy's name and is
// its authority's. It takes new files without a restart.
func TestProxyWithACertificate(t *testing.T) {
	ours, others := newIssuer(t), newIssuer(t)
	certificate, key := ours.pair("page", "slurm-web", x509.ExtKeyUsageServerAuth)
	s := openAt(t, sample(3, 10), Entrance{
		Address: "127.0.0.1:0", UserHeader: userHeader, Certificate: certificate, Key: key, ClientCA: filepath.Join(ours.dir, "ca.crt"), ClientName: "proxy",
	})
	ask := func(trusts *issuer, shows *tls.Certificate) (string, error) {
		roots := x509.NewCertPool()
		roots.AddCert(trusts.cert)
		config := &tls.Config{RootCAs: roots, ServerName: "slurm-web"}
		if shows != nil {
			config.Certificates = []tls.Certificate{*shows}
		}
		client := http.Client{Timeout: limit, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.address+"/", http.NoBody)
		require.NoError(t, err)
		as("alice")(request)
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	load := func(i *issuer, file, name string, usage x509.ExtKeyUsage) *tls.Certificate {
		pair, err := tls.LoadX509KeyPair(i.pair(file, name, usage))
		require.NoError(t, err)
		return &pair
	}
	proxy := load(ours, "proxy", "proxy", x509.ExtKeyUsageClientAuth)
	body, err := ask(ours, proxy)
	require.NoError(t, err)
	require.Contains(t, body, "cpu-0000")
	for name, shown := range map[string]*tls.Certificate{
		"none": nil, "another authority's": load(others, "proxy", "proxy", x509.ExtKeyUsageClientAuth),
		"another name": load(ours, "pod", "pod", x509.ExtKeyUsageClientAuth), "a server's": load(ours, "server", "proxy", x509.ExtKeyUsageServerAuth),
	} {
		_, err := ask(ours, shown)
		require.Error(t, err, name)
	}
	plain, err := http.Get("http://" + s.address + "/")
	require.NoError(t, err)
	require.NoError(t, plain.Body.Close())
	require.Equal(t, http.StatusBadRequest, plain.StatusCode)

	later := func() {
		s.certificates.lock.Lock()
		defer s.certificates.lock.Unlock()
		s.certificates.until = time.Time{}
	}
	require.NoError(t, os.WriteFile(certificate, []byte("half a file"), 0o600))
	later()
	_, err = ask(ours, proxy)
	require.NoError(t, err, "the last good files serve")
	others.dir = ours.dir
	others.pair("page", "slurm-web", x509.ExtKeyUsageServerAuth)
	others.write("ca.crt", "CERTIFICATE", others.cert.Raw)
	later()
	_, err = ask(others, load(others, "proxy", "proxy", x509.ExtKeyUsageClientAuth))
	require.NoError(t, err)
	_, err = ask(others, proxy)
	require.Error(t, err)
}
