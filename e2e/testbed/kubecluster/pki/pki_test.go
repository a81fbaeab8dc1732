package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A server that asks for certificates learns who its client is.
func TestServerAndClient(t *testing.T) {
	a, err := New("cluster")
	require.NoError(t, err)
	other, err := New("cluster")
	require.NoError(t, err)
	served, err := a.Server("kubernetes", "127.0.0.1")
	require.NoError(t, err)

	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		subject := r.TLS.PeerCertificates[0].Subject
		_, _ = w.Write([]byte(subject.CommonName + " in " + subject.Organization[0]))
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{keyPair(t, served)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool(a)}
	server.StartTLS()
	defer server.Close()

	for name, tc := range map[string]struct {
		signer, trusted *Authority
		server, want    string
	}{
		"one of the cluster":           {a, a, "kubernetes", "admin in system:masters"},
		"by address":                   {a, a, "127.0.0.1", "admin in system:masters"},
		"another server name":          {a, a, "elsewhere", ""},
		"a client of another cluster":  {other, a, "kubernetes", ""},
		"the server of another is not": {a, other, "kubernetes", ""},
	} {
		t.Run(name, func(t *testing.T) {
			mine, err := tc.signer.Client("admin", "system:masters")
			require.NoError(t, err)
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
				Certificates: []tls.Certificate{keyPair(t, mine)}, RootCAs: pool(tc.trusted), ServerName: tc.server,
			}}}
			defer client.CloseIdleConnections()
			got, err := client.Get(server.URL)
			if tc.want == "" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			defer got.Body.Close()
			text := make([]byte, 100)
			n, _ := got.Body.Read(text)
			assert.Equal(t, tc.want, string(text[:n]))
		})
	}
}

func keyPair(t *testing.T, p Pair) tls.Certificate {
	c, err := tls.X509KeyPair(p.Certificate, p.Key)
	require.NoError(t, err)
	return c
}

func pool(a *Authority) *x509.CertPool {
	all := x509.NewCertPool()
	all.AppendCertsFromPEM(a.Certificate)
	return all
}
