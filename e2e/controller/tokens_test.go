//go:build e2e

package controller

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

func refusals(b *bed) {
	pod := b.pod(spec{"hpc", "t-slurmctld-0", "t", "slurmctld", "", "", "", []string{"127.0.3.1"}})
	pod.Status.PodIP = "127.0.3.1"
	b.agent(pod).has("t-slurmctld-0", "127.0.3.1")
	plain := b.pod(spec{"other", "plain", "", "", "", "", "", []string{"10.5.0.2"}})
	ended := b.pod(spec{"hpc", "t-ended", "t", "slurmd", "", "", "", []string{"10.5.0.3"}})
	ofEnded := b.token("hpc", "default", ended, wire.Audience)
	b.delete(ended, 0)
	ours := b.signer()
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(b, err)
	hour := time.Now().Add(time.Hour)
	r := b.replicas[0]

	for _, c := range []struct{ name, token string }{
		{"no token", ""},
		{"no token at all, but a text", "let me in"},
		{"a token of the API", b.token("hpc", "default", pod, issuer)},
		{"another audience", b.token("hpc", "default", pod, "vault")},
		{"a token of no pod", b.token("hpc", "default", nil, wire.Audience)},
		{"a pod without a cluster in another namespace", b.token("other", "default", plain, wire.Audience)},
		{"a pod that is no more", ofEnded},
		{"an expired one", forge(b, ours, pod, "hpc", time.Now().Add(-time.Minute))},
		{"one that another key has signed", forge(b, foreign, pod, "hpc", hour)},
		{"one that names the pod of another namespace", forge(b, foreign, pod, "other", hour)},
	} {
		before := int(r.metric("slurmlet_controller_streams_total"))
		assert.Equal(b, http.StatusUnauthorized, b.ask(r, "127.0.0.2", c.token), c.name)
		assert.Equal(b, before, int(r.metric("slurmlet_controller_streams_total")), c.name)
	}
	former := reissue(b, ours, b.token("hpc", "default", pod, wire.Audience))
	assert.Equal(b, http.StatusOK, b.ask(r, "127.0.0.2", former), "a token of before the issuer changed")
	b.flood(r, pod, foreign)
}

// flood: tokens that strangers make up cost Kubernetes next to nothing, and agents come in meanwhile.
func (b *bed) flood(r *replica, pod *corev1.Pod, foreign *ecdsa.PrivateKey) {
	reviews := r.metric("slurmlet_controller_token_reviews_total")
	began := time.Now()
	var strangers sync.WaitGroup
	for n := range 20 {
		strangers.Go(func() {
			from := fmt.Sprintf("127.0.1.%d", n+1)
			for i := range 50 {
				expires := time.Now().Add(time.Duration(i+1) * time.Minute)
				b.ask(r, from, forge(b, foreign, pod, "hpc", expires))
			}
		})
	}
	half := make([]net.Conn, 0, 2000)
	for n := range cap(half) {
		if conn, err := dialFrom(fmt.Sprintf("127.0.2.%d", n%200+1), r.peers); err == nil {
			_, _ = conn.Write([]byte{22, 3, 1}) // the begin of a ClientHello
			half = append(half, conn)
		}
	}
	newcomer := b.pod(spec{"hpc", "t-cpu-0", "t", "slurmd", "", "", "", []string{"10.5.0.9"}})
	only := b.replicas
	b.replicas = []*replica{r}
	b.agent(newcomer).has("t-cpu-0", "10.5.0.9")
	b.replicas = only
	assert.Equal(b, http.StatusOK, b.ask(r, pod.Status.PodIP, b.token("hpc", "default", pod, wire.Audience)), "the agent of the pod that the tokens name")
	strangers.Wait()
	for _, conn := range half {
		conn.Close()
	}
	asked := r.metric("slurmlet_controller_token_reviews_total") - reviews
	b.Logf("1,000 forged tokens and %d half-open connections: %v TokenReviews in %v", len(half), asked, time.Since(began).Round(time.Millisecond))
	assert.LessOrEqual(b, asked, 7+time.Since(began).Seconds()) // five at once for the pod, one each two seconds, and the two agents'
	assert.GreaterOrEqual(b, r.metric("slurmlet_controller_denied_requests_total")+r.metric("slurmlet_controller_tokens_delayed_total"), 900.0)
	assert.NotContains(b, r.log(), "cannot judge", "strangers write no log")
}

// signer is the key of the cluster's service accounts.
func (b *bed) signer() *ecdsa.PrivateKey {
	block, _ := pem.Decode(b.accounts)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	require.NoError(b, err)
	return key
}

// forge makes a token as Kubernetes makes them.
func forge(b *bed, key *ecdsa.PrivateKey, pod *corev1.Pod, namespace string, expires time.Time) string {
	claims := map[string]any{
		"iss": issuer, "aud": []string{wire.Audience}, "sub": "system:serviceaccount:" + namespace + ":default",
		"iat": expires.Add(-time.Hour).Unix(), "nbf": expires.Add(-time.Hour).Unix(), "exp": expires.Unix(),
		"kubernetes.io": map[string]any{
			"namespace": namespace, "pod": map[string]any{"name": pod.Name, "uid": pod.UID},
			"serviceaccount": map[string]any{"name": "default", "uid": "1"},
		},
	}
	var text string
	for _, part := range []any{map[string]string{"alg": "ES256", "kid": "1"}, claims} {
		one, err := json.Marshal(part)
		require.NoError(b, err)
		if text != "" {
			text += "."
		}
		text += base64.RawURLEncoding.EncodeToString(one)
	}
	return sign(b, key, text)
}

// reissue makes a token of Kubernetes' one that the former issuer could have made.
func reissue(b *bed, key *ecdsa.PrivateKey, token string) string {
	parts := strings.Split(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(b, err)
	text = []byte(strings.Replace(string(text), issuer, formerIssuer, 1))
	require.Contains(b, string(text), formerIssuer)
	return sign(b, key, parts[0]+"."+base64.RawURLEncoding.EncodeToString(text))
}

// sign appends the signature of a token's first two parts.
func sign(b *bed, key *ecdsa.PrivateKey, text string) string {
	sum := sha256.Sum256([]byte(text))
	x, y, err := ecdsa.Sign(rand.Reader, key, sum[:])
	require.NoError(b, err)
	signature := append(x.FillBytes(make([]byte, 32)), y.FillBytes(make([]byte, 32))...)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// ask asks for a stream from an address, and gives the status; 0 without an answer.
func (b *bed) ask(r *replica, from, token string) int {
	conn, err := dialFrom(from, r.peers)
	if err != nil {
		return 0
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(15 * time.Second))
	trusted := x509.NewCertPool()
	text, err := os.ReadFile(b.bundle("hpc"))
	if err != nil || !trusted.AppendCertsFromPEM(text) {
		return 0
	}
	secure := tls.Client(conn, &tls.Config{RootCAs: trusted, ServerName: home + "." + home + ".svc"})
	request, err := http.NewRequest(http.MethodGet, "https://"+home+"."+home+".svc/v1/stream", nil)
	if err != nil {
		return 0
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if request.Write(secure) != nil {
		return 0
	}
	answer, err := http.ReadResponse(bufio.NewReader(secure), request)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

// dialFrom connects from an address of this machine.
func dialFrom(from, to string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	return d.Dial("tcp", to)
}
