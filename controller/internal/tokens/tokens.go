// Package tokens finds the pod whose token a client has shown. It asks Kubernetes (TokenReview), as
// rarely as it can: strangers cause no questions with tokens that cannot be right, and an agent one
// for each of its tokens.
package tokens

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Options are all that sets one Reviewer apart from another.
type Options struct {
	// API takes TokenReviews. Its client should have no limit of its own.
	API authenticationclient.TokenReviewInterface
	// Find is the pod of a cluster with this namespace, name and UID.
	Find func(namespace, name, uid string) (Pod, bool)
	// Now is the clock; nil: the machine's.
	Now func() time.Time
}

// Pod is one that may read its cluster's table.
type Pod struct {
	peerserver.Identity
	Addresses []netip.Addr
}

// Reviewer judges tokens.
type Reviewer struct {
	Options
	rate  flowcontrol.RateLimiter
	slots chan struct{}

	mu sync.Mutex
	// good are tokens that Kubernetes has taken, bad those that it has not, until when.
	good map[digest]verified
	bad  map[digest]time.Time
	// asking has the tokens that somebody asks about.
	asking map[digest]*question
	// shares bound the questions about tokens that name a pod.
	shares map[share]*bucket

	reviews, refused, failed, delayed atomic.Uint64
}

type digest [sha256.Size]byte

// verified is the pod that Kubernetes has found a token to be of.
type verified struct {
	namespace, name, uid string
	until                time.Time
}

// question is one TokenReview, for all who wait for its answer.
type question struct {
	done chan struct{}
	err  error
}

// share is one of the two that a pod has: for tokens that come from its own address, and for those from
// elsewhere. So nobody elsewhere, who may know the pod's UID, keeps its agent out.
type share struct {
	uid string
	own bool
}

// bucket is how many questions a share has left.
type bucket struct {
	left  float64
	since time.Time
}

const (
	// mostToken is longer than any service account's token.
	mostToken = 8 << 10
	// mostGood and mostBad bound the memory: some 300 bytes for each good one, and 100 for each bad.
	mostGood, mostBad, mostShares = 50_000, 10_000, 50_000
	// goodTime bounds how long an answer counts beyond the look at the pod, and badTime a refusal.
	goodTime, badTime = 10 * time.Minute, 10 * time.Second
	// reviewTime bounds a question to Kubernetes.
	reviewTime = 10 * time.Second
	// reviewRate is how many TokenReviews a second a replica sends at most, and reviewsAtOnce how
	// many wait for an answer.
	reviewRate, reviewsAtOnce = 500, 32
	// shareBurst and shareRate bound the questions about one share of a pod: its agent has one token an
	// hour, and its other processes may try some.
	shareBurst, shareRate = 5, 0.5
)

// New makes a Reviewer.
func New(o Options) *Reviewer {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reviewer{
		Options: o, rate: flowcontrol.NewTokenBucketRateLimiter(reviewRate, reviewRate), slots: make(chan struct{}, reviewsAtOnce),
		good: map[digest]verified{}, bad: map[digest]time.Time{}, asking: map[digest]*question{}, shares: map[share]*bucket{},
	}
}

// Stats are a Reviewer's counts.
type Stats struct {
	// Reviews are questions to Kubernetes, Refused tokens that give no right, Failed questions without an
	// answer, and Delayed tokens that had to wait for their turn in vain.
	Reviews, Refused, Failed, Delayed uint64
	// Known are tokens that the cache has.
	Known int
}

// Stats are the present counts.
func (r *Reviewer) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{Reviews: r.reviews.Load(), Refused: r.refused.Load(), Failed: r.failed.Load(), Delayed: r.delayed.Load(), Known: len(r.good)}
}

// Authenticate is for peerserver.ServerOptions. No error holds any part of the token.
func (r *Reviewer) Authenticate(ctx context.Context, token string) (peerserver.Identity, error) {
	id, err := r.authenticate(ctx, token)
	switch {
	case errors.Is(err, peerserver.ErrNotAllowed):
		r.refused.Add(1)
	case errors.Is(err, peerserver.ErrBusy):
		r.delayed.Add(1)
	case err != nil:
		r.failed.Add(1)
	}
	return id, err
}

func (r *Reviewer) authenticate(ctx context.Context, token string) (peerserver.Identity, error) {
	if len(token) > mostToken {
		return peerserver.Identity{}, peerserver.ErrNotAllowed
	}
	sum := digest(sha256.Sum256([]byte(token)))
	for range 2 {
		if id, known, err := r.remembered(sum); known {
			return id, err
		}
		// Only whoever asks reads the token: what follows costs more than a look at the cache.
		c, err := read(token)
		if err != nil || c.hopeless(r.Now()) {
			return peerserver.Identity{}, peerserver.ErrNotAllowed
		}
		pod, there := r.Find(c.Kubernetes.Namespace, c.Kubernetes.Pod.Name, c.Kubernetes.Pod.UID)
		if !there {
			return peerserver.Identity{}, peerserver.ErrNotAllowed
		}
		of := share{pod.UID, slices.Contains(pod.Addresses, peerserver.From(ctx))}
		if err := r.ask(ctx, sum, token, c, of); err != nil {
			return peerserver.Identity{}, err
		}
	}
	return peerserver.Identity{}, peerserver.ErrBusy // the answer was forgotten at once: the cache is full of others
}

// remembered looks for an earlier answer, and looks at the pod anew.
func (r *Reviewer) remembered(sum digest) (id peerserver.Identity, known bool, err error) {
	r.mu.Lock()
	v, good := r.good[sum]
	until, bad := r.bad[sum]
	now := r.Now()
	if good && !now.Before(v.until) {
		delete(r.good, sum)
		good = false
	}
	if bad && !now.Before(until) {
		delete(r.bad, sum)
		bad = false
	}
	r.mu.Unlock()
	switch {
	case good:
		pod, there := r.Find(v.namespace, v.name, v.uid)
		if !there {
			return peerserver.Identity{}, true, peerserver.ErrNotAllowed
		}
		return pod.Identity, true, nil
	case bad:
		return peerserver.Identity{}, true, peerserver.ErrNotAllowed
	}
	return peerserver.Identity{}, false, nil
}

// ask asks Kubernetes, or waits for the answer to the same question.
func (r *Reviewer) ask(ctx context.Context, sum digest, token string, c claims, of share) error {
	r.mu.Lock()
	if q := r.asking[sum]; q != nil {
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-q.done:
			return q.err
		}
	}
	_, good := r.good[sum]
	_, bad := r.bad[sum]
	if good || bad { // the answer has come since the caller looked for it
		r.mu.Unlock()
		return nil
	}
	if !r.mayAsk(of) {
		r.mu.Unlock()
		return peerserver.ErrBusy
	}
	q := &question{done: make(chan struct{})}
	r.asking[sum] = q
	r.mu.Unlock()

	// An agent that has gone meanwhile comes again, and finds the answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTime)
	defer cancel()
	v, taken, err := r.review(ctx, token, c)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asking, sum)
	q.err = err
	close(q.done)
	switch now := r.Now(); {
	case err != nil:
	case taken:
		makeRoom(r.good, mostGood, func(v verified) bool { return !now.Before(v.until) })
		r.good[sum] = v
	default:
		makeRoom(r.bad, mostBad, func(until time.Time) bool { return !now.Before(until) })
		r.bad[sum] = now.Add(badTime)
	}
	return err
}

// review sends one TokenReview. taken says that Kubernetes knows the token, as one of a pod and for us.
func (r *Reviewer) review(ctx context.Context, token string, c claims) (v verified, taken bool, err error) {
	if r.rate.Wait(ctx) != nil {
		return v, false, peerserver.ErrBusy
	}
	select {
	case <-ctx.Done():
		return v, false, peerserver.ErrBusy
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	}
	r.reviews.Add(1)
	answer, err := r.API.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{wire.Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return v, false, fmt.Errorf("cannot ask Kubernetes about a token of the pod %s/%s: %v", c.Kubernetes.Namespace, c.Kubernetes.Pod.Name, err)
	}
	v, taken = judge(answer.Status, min(c.Expires, r.Now().Add(goodTime).Unix()))
	return v, taken, nil
}

// judge takes the pod from what Kubernetes says, never from the token itself.
func judge(s authenticationv1.TokenReviewStatus, until int64) (verified, bool) {
	account, is := strings.CutPrefix(s.User.Username, "system:serviceaccount:")
	namespace, _, named := strings.Cut(account, ":")
	name, uid := s.User.Extra["authentication.kubernetes.io/pod-name"], s.User.Extra["authentication.kubernetes.io/pod-uid"]
	ours := len(s.Audiences) == 1 && s.Audiences[0] == wire.Audience
	if !s.Authenticated || s.Error != "" || !ours || !is || !named || len(name) != 1 || len(uid) != 1 {
		return verified{}, false
	}
	return verified{namespace: namespace, name: name[0], uid: uid[0], until: time.Unix(until, 0)}, true
}

// mayAsk takes one question from a share. The caller holds mu.
func (r *Reviewer) mayAsk(of share) bool {
	now := r.Now()
	b := r.shares[of]
	if b == nil {
		makeRoom(r.shares, mostShares, func(b *bucket) bool { return b.at(now) >= shareBurst })
		b = &bucket{left: shareBurst, since: now}
		r.shares[of] = b
	}
	b.left, b.since = b.at(now), now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

func (b *bucket) at(now time.Time) float64 {
	return min(shareBurst, b.left+now.Sub(b.since).Seconds()*shareRate)
}

// makeRoom takes out what is over where a map is full, and any one if nothing is.
func makeRoom[K comparable, V any](m map[K]V, most int, over func(V) bool) {
	if len(m) < most {
		return
	}
	for k, v := range m {
		if over(v) {
			delete(m, k)
		}
	}
	for k := range m {
		if len(m) < most {
			return
		}
		delete(m, k)
	}
}
