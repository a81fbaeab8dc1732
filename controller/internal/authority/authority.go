// Package authority keeps the certificate authority that the agents trust. Its key is in a Secret of the
// controller's namespace, and its certificates are in a ConfigMap of each namespace that has pods of a
// cluster. The leader writes both; each replica signs a certificate for itself.
package authority

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/slurmlet/slurmlet/controller/internal/namespaces"
)

// Name is the name of the Secret and of the ConfigMaps.
const Name = "slurmlet-ca"

// Options are all that sets one Authority apart from another.
type Options struct {
	API kubernetes.Interface
	// Namespace is the controller's, and In those that may have the ConfigMaps.
	Namespace string
	In        namespaces.Set
	// Names are those that clients know a replica by.
	Names []string
	// Lifetime is how long an authority is used and trusted.
	Lifetime time.Duration
	Log      *slog.Logger
}

// Authority is a replica's view of the Secret, and the certificate that follows from it.
type Authority struct {
	Options
	times        times
	secrets      cache.SharedIndexInformer
	published    *namespaces.Informers
	secretsKnown cache.InformerSynced
	// looked is told when the Secret has changed, drifted when a ConfigMap has, and changed when the
	// bundle has.
	looked, drifted chan struct{}
	leaf            atomic.Pointer[tls.Certificate]

	mu    sync.Mutex
	state *state // the last one that was whole
	// seen is the Secret that was looked at last; nil if there was none. broken is why it is not whole.
	seen      *corev1.Secret
	broken    error
	listeners []chan struct{}
}

// New makes an Authority that watches from Run on.
func New(o Options) (*Authority, error) {
	a := &Authority{Options: o, times: times{o.Lifetime}, looked: make(chan struct{}, 1), drifted: make(chan struct{}, 1), broken: errUnknown}
	named := informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, Name).String()
	})
	a.secrets = informers.NewSharedInformerFactoryWithOptions(o.API, 0, named, informers.WithNamespace(o.Namespace)).Core().V1().Secrets().Informer()
	published, err := o.In.Informers(func(namespace string) (cache.SharedIndexInformer, error) {
		return informers.NewSharedInformerFactoryWithOptions(o.API, 0, named, informers.WithNamespace(namespace)).Core().V1().ConfigMaps().Informer(), nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot watch the certificate authority: %w", err)
	}
	a.published = published
	secret, err := a.secrets.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { a.take(now.(*corev1.Secret)) },
		UpdateFunc: func(_, now any) { a.take(now.(*corev1.Secret)) },
		DeleteFunc: func(any) { a.take(nil) },
	})
	_, err2 := a.published.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { wakeUp(a.drifted) },
		UpdateFunc: func(any, any) { wakeUp(a.drifted) },
		DeleteFunc: func(any) { wakeUp(a.drifted) },
	})
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("cannot watch the certificate authority: %w", err)
	}
	a.secretsKnown = secret.HasSynced
	return a, nil
}

var (
	errUnknown = errors.New("nobody has looked at the Secret yet")
	errMissing = errors.New("there is no Secret " + Name)
)

func wakeUp(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it knows already
	}
}

// take looks at the Secret. One that is broken or gone changes nothing here: the leader mends it.
func (a *Authority) take(secret *corev1.Secret) {
	var s *state
	err := errMissing
	if secret != nil {
		s, err = parse(secret.Data)
	}
	a.mu.Lock()
	a.seen, a.broken = secret, err
	if err == nil {
		before := a.bundle()
		a.state = s
		if !bytes.Equal(before, a.bundle()) {
			for _, l := range a.listeners {
				wakeUp(l)
			}
		}
	}
	a.mu.Unlock()
	if err != nil {
		a.Log.Warn("the certificate authority is not whole", "secret", Name, slog.Any("error", err))
	}
	wakeUp(a.looked)
}

// Bundle are the certificates that clients must trust, as PEM; empty while there are none.
func (a *Authority) Bundle() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bundle()
}

func (a *Authority) bundle() []byte {
	if a.state == nil {
		return nil
	}
	return encode(a.state.trusted()...)
}

// Changed is told when Bundle has changed.
func (a *Authority) Changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := make(chan struct{}, 1)
	a.listeners = append(a.listeners, l)
	return l
}

// TLS has the certificate of this replica, whichever it is at the time of a connection.
func (a *Authority) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c := a.leaf.Load(); c != nil {
				return c, nil
			}
			return nil, errors.New("this replica has no certificate yet")
		},
	}
}

// Ready says whether this replica has a certificate.
func (a *Authority) Ready() bool { return a.leaf.Load() != nil }

// Ends is when the signer ends, and when this replica's certificate does.
func (a *Authority) Ends() (signer, leaf time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != nil {
		signer = a.state.signer.certificate.NotAfter
	}
	if c := a.leaf.Load(); c != nil {
		leaf = c.Leaf.NotAfter
	}
	return signer, leaf
}

// Run watches, and signs this replica's certificates, until ctx ends.
func (a *Authority) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { a.secrets.RunWithContext(ctx) })
	running.Go(func() { a.published.Run(ctx) })
	changed := a.Changed() // with the signer, which comes first
	for {
		next := a.signLeaf(time.Now())
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// signLeaf makes a certificate if it is time to, and says when to look again.
func (a *Authority) signLeaf(now time.Time) time.Duration {
	a.mu.Lock()
	s := a.state
	a.mu.Unlock()
	if s == nil {
		return time.Hour // a change of the Secret comes before
	}
	leaf := a.leaf.Load()
	fresh := leaf != nil && now.Before(leaf.Leaf.NotBefore.Add(backdate+a.lifetimeOf(leaf)*2/3))
	switch {
	case leaf == nil:
	case fresh && leaf.Leaf.CheckSignatureFrom(s.signer.certificate) == nil:
		return a.lifetimeOf(leaf) / 3
	case fresh && now.Sub(s.signer.made()) < a.times.overlap() && trusts(s, leaf):
		// The signer is so new that many pods do not trust it yet, and they trust this one.
		return s.signer.made().Add(a.times.overlap()).Sub(now)
	}
	signed, err := s.signer.sign(now, a.times.leaf(), a.Names)
	if err != nil {
		a.Log.Error("cannot sign this replica's certificate", slog.Any("error", err))
		return time.Minute
	}
	a.leaf.Store(signed)
	a.Log.Info("this replica has a new certificate", "until", signed.Leaf.NotAfter, "signer", s.signer.certificate.Subject.CommonName)
	return a.lifetimeOf(signed) / 3
}

func (a *Authority) lifetimeOf(c *tls.Certificate) time.Duration {
	return c.Leaf.NotAfter.Sub(c.Leaf.NotBefore) - backdate
}

// trusts says whether pods that trust s trust a leaf.
func trusts(s *state, leaf *tls.Certificate) bool {
	return slices.ContainsFunc(s.trusted(), func(c *x509.Certificate) bool { return leaf.Leaf.CheckSignatureFrom(c) == nil })
}

const (
	// requestTimeout is how long one request to Kubernetes may take, and pause follows one in vain.
	requestTimeout, pause = 10 * time.Second, 2 * time.Second
)

// Lead makes, mends and renews the Secret until ctx ends.
func (a *Authority) Lead(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), a.secretsKnown) {
		return
	}
	if len(a.secrets.GetStore().ListKeys()) == 0 {
		a.take(nil) // no event says that there is none
	}
	for {
		select {
		case <-a.looked: // mend sees it
		default:
		}
		wait, err := a.mend(ctx, time.Now())
		if err != nil && ctx.Err() == nil {
			a.Log.Warn("cannot write the certificate authority", "secret", Name, slog.Any("error", err))
			wait = pause
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-a.looked:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// mend writes the Secret that should be, if it is another one, and says when to look again. The version of
// the Secret that it has judged guards a younger one.
func (a *Authority) mend(ctx context.Context, now time.Time) (time.Duration, error) {
	a.mu.Lock()
	seen, from, last, broken := a.seen, a.state, a.state, a.broken
	a.mu.Unlock()
	var trusted []*x509.Certificate
	if broken != nil {
		from = nil
		if last != nil {
			trusted = last.trusted()
		}
	}
	to, err := a.times.step(from, now, trusted)
	if err != nil {
		return 0, err
	}
	if to != from {
		if err := a.write(ctx, seen, to); err != nil {
			return 0, err
		}
	}
	return max(a.times.due(to).Sub(now), 0), nil
}

func (a *Authority) write(ctx context.Context, seen *corev1.Secret, s *state) error {
	data, err := s.data()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	api := a.API.CoreV1().Secrets(a.Namespace)
	if seen != nil {
		changed := seen.DeepCopy()
		changed.Data = data
		_, err = api.Update(ctx, changed, metav1.UpdateOptions{})
	} else {
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: Name, Labels: managed()}, Data: data}
		_, err = api.Create(ctx, made, metav1.CreateOptions{})
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return errors.New("the Secret has changed meanwhile")
	case err != nil:
		return err
	}
	// What was written comes back as an event. To take it here could undo a younger event.
	a.Log.Info("the certificate authority is written", "secret", Name, "signer", s.signer.certificate.Subject.CommonName, "trusted", len(s.trusted()))
	return nil
}

func managed() map[string]string {
	return map[string]string{"app.kubernetes.io/managed-by": "slurmlet-controller"}
}
