package authority

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	year  = times{360 * 24 * time.Hour}
)

// TestALifeOfAuthorities: each is trusted before it signs, and after.
func TestALifeOfAuthorities(t *testing.T) {
	made := next(t, nil, start)
	assert.Same(t, made, next(t, made, start.Add(239*24*time.Hour)), "nothing is due")
	assert.Equal(t, start.Add(240*24*time.Hour), year.due(made))

	renewed := next(t, made, start.Add(240*24*time.Hour))
	assert.Same(t, made.signer, renewed.signer, "no pod trusts the next one yet")
	require.NotNil(t, renewed.next)
	assert.Len(t, renewed.trusted(), 2)
	assert.Same(t, renewed, next(t, renewed, start.Add(240*24*time.Hour+9*time.Minute)))

	signs := next(t, renewed, year.due(renewed))
	assert.Same(t, renewed.next, signs.signer)
	assert.Nil(t, signs.next)
	assert.Equal(t, []*x509.Certificate{signs.signer.certificate, made.signer.certificate}, signs.trusted())

	alone := next(t, signs, made.signer.certificate.NotAfter)
	assert.Len(t, alone.trusted(), 1)
	late := next(t, alone, alone.signer.certificate.NotAfter.Add(time.Hour))
	assert.NotSame(t, alone.signer, late.signer, "one that has ended signs nothing")
	assert.Len(t, late.trusted(), 1)
}

// next is the state that follows, as the Secret would bring it back.
func next(t *testing.T, s *state, now time.Time, trusted ...*x509.Certificate) *state {
	t.Helper()
	to, err := year.step(s, now, trusted)
	require.NoError(t, err)
	data, err := to.data()
	require.NoError(t, err)
	back, err := parse(data)
	require.NoError(t, err)
	assert.Equal(t, encode(to.trusted()...), encode(back.trusted()...))
	return to
}

// TestWhatWasTrustedStaysTrusted: the Secret is gone, and its authorities have signed what still serves.
func TestWhatWasTrustedStaysTrusted(t *testing.T) {
	former := next(t, nil, start)
	made := next(t, nil, start.Add(time.Hour), former.trusted()...)
	assert.Equal(t, []*x509.Certificate{made.signer.certificate, former.signer.certificate}, made.trusted())
	for range 20 {
		made = next(t, nil, start.Add(time.Hour), made.trusted()...)
	}
	assert.LessOrEqual(t, len(made.trusted()), mostTrusted, "somebody deletes it again and again")
}

func TestParse(t *testing.T) {
	one, err := next(t, nil, start).data()
	require.NoError(t, err)
	other, err := next(t, nil, start).data()
	require.NoError(t, err)
	leaf, err := next(t, nil, start).signer.sign(start, time.Hour, []string{"a"})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change map[string][]byte
		says   string
	}{
		"whole":                     {nil, ""},
		"nothing":                   {map[string][]byte{signerCertificate: nil}, "it has no signer.crt"},
		"no PEM":                    {map[string][]byte{signerCertificate: []byte("x")}, "signer.crt and signer.key: want certificates in PEM"},
		"two certificates":          {map[string][]byte{signerCertificate: append(one[signerCertificate], other[signerCertificate]...)}, "signer.crt and signer.key: want one certificate"},
		"no key":                    {map[string][]byte{signerKey: nil}, "signer.crt and signer.key: want one key in PEM"},
		"another's key":             {map[string][]byte{signerKey: other[signerKey]}, "signer.crt and signer.key: the key is not the certificate's"},
		"a key that is none":        {map[string][]byte{signerKey: []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")}, "signer.crt and signer.key: cannot read the key"},
		"a server's certificate":    {map[string][]byte{signerCertificate: encode(leaf.Leaf)}, "signer.crt and signer.key: want the certificates of a few authorities"},
		"a next one without a key":  {map[string][]byte{nextCertificate: other[signerCertificate]}, "next.crt and next.key: want one key in PEM"},
		"former ones that are none": {map[string][]byte{formerKey: []byte("x")}, "former.crt: want certificates in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{}
			maps.Copy(data, one)
			maps.Copy(data, c.change)
			_, err := parse(data)
			if c.says == "" {
				assert.NoError(t, err)
				return
			}
			assert.EqualError(t, err, c.says)
		})
	}
}

// TestLeaf: a replica goes over to a new authority when pods trust it, at once if it has no other choice.
func TestLeaf(t *testing.T) {
	a := &Authority{Options: Options{Names: []string{"slurmlet.home.svc"}, Log: slog.New(slog.DiscardHandler)}, times: year, looked: make(chan struct{}, 1)}
	assert.False(t, a.Ready())
	first := next(t, nil, start)
	a.takeState(t, first)
	a.signLeaf(start)
	leaf := a.leaf.Load()
	require.NotNil(t, leaf)
	trustedBy(t, leaf, first)

	later := start.Add(time.Hour)
	second := next(t, nil, later, first.trusted()...)
	a.takeState(t, second)
	wait := a.signLeaf(later)
	assert.Same(t, leaf, a.leaf.Load(), "pods have the old bundle")
	assert.Equal(t, year.overlap(), wait)
	a.signLeaf(later.Add(wait))
	assert.NotSame(t, leaf, a.leaf.Load())
	trustedBy(t, a.leaf.Load(), second)

	fresh := &Authority{Options: a.Options, times: year, looked: make(chan struct{}, 1)}
	fresh.takeState(t, second)
	fresh.signLeaf(later)
	assert.NoError(t, fresh.leaf.Load().Leaf.CheckSignatureFrom(second.signer.certificate), "a replica that starts has nothing else")

	old := fresh.leaf.Load()
	fresh.signLeaf(later.Add(8 * time.Hour))
	assert.Same(t, old, fresh.leaf.Load())
	fresh.signLeaf(later.Add(16 * time.Hour))
	assert.NotSame(t, old, fresh.leaf.Load(), "two thirds of a day")
}

func (a *Authority) takeState(t *testing.T, s *state) {
	t.Helper()
	data, err := s.data()
	require.NoError(t, err)
	a.take(&corev1.Secret{Data: data})
}

func trustedBy(t *testing.T, leaf *tls.Certificate, s *state) {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(encode(s.trusted()...)))
	_, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "slurmlet.home.svc", CurrentTime: leaf.Leaf.NotBefore.Add(time.Minute)})
	assert.NoError(t, err)
}

// TestChangedIsTold: whoever publishes the bundle hears of each, and of no Secret that is broken.
func TestChangedIsTold(t *testing.T) {
	a := &Authority{Options: Options{Log: slog.New(slog.DiscardHandler)}, times: year, looked: make(chan struct{}, 1)}
	changed := a.Changed()
	a.takeState(t, next(t, nil, start))
	<-changed
	bundle := a.Bundle()
	a.take(nil)
	a.take(&corev1.Secret{})
	assert.Empty(t, changed)
	assert.Equal(t, bundle, a.Bundle(), "this replica serves on")
	assert.Error(t, a.broken)
}
