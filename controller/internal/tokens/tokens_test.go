package tokens

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// kubernetes takes the tokens that end with ".good". e2e/controller has the real one.
type kubernetes struct {
	asked atomic.Int64
	hold  chan struct{} // nil: it answers at once
	err   error
}

func (k *kubernetes) Create(ctx context.Context, r *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	k.asked.Add(1)
	if k.hold != nil {
		<-k.hold
	}
	if k.err != nil {
		return nil, k.err
	}
	c, err := read(r.Spec.Token)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(r.Spec.Token, ".good") {
		r.Status = status(c.Kubernetes.Pod.Name, c.Kubernetes.Pod.UID)
	}
	return r, ctx.Err()
}

func status(name, uid string) authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{wire.Audience},
		User: authenticationv1.UserInfo{Username: "system:serviceaccount:hpc:default", Extra: map[string]authenticationv1.ExtraValue{
			"authentication.kubernetes.io/pod-name": {name}, "authentication.kubernetes.io/pod-uid": {uid},
		}},
	}
}

// bench is a Reviewer with a clock, and pods called a0, a1 and so on with the UIDs 0, 1 and so on.
type bench struct {
	*Reviewer
	api  kubernetes
	mu   sync.Mutex
	now  time.Time
	gone map[string]bool
}

func newBench() *bench {
	b := &bench{now: time.Unix(1_800_000_000, 0), gone: map[string]bool{}}
	b.Reviewer = New(Options{API: &b.api, Find: b.find, Now: func() time.Time {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.now
	}})
	return b
}

func (b *bench) find(namespace, name, uid string) (Pod, bool) {
	id := peerserver.Identity{Cluster: "hpc/slurm", Pod: namespace + "/" + name, UID: uid}
	return Pod{Identity: id}, namespace == "hpc" && name == "a"+uid && !b.gone[uid]
}

func (b *bench) later(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// token is one of a pod, changed by others.
func (b *bench) token(uid, end string, changes ...string) string {
	payload := fmt.Sprintf(`{"iss":"us","aud":[%q],"exp":%d,"nbf":%d,"kubernetes.io":{"namespace":"hpc","pod":{"name":"a%s","uid":%q}}}`,
		wire.Audience, b.now.Add(time.Hour).Unix(), b.now.Unix(), uid, uid)
	for i := 0; i < len(changes); i += 2 {
		payload = strings.Replace(payload, changes[i], changes[i+1], 1)
	}
	return "x." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "." + end
}

// TestHopeless: what cannot be right is no question to Kubernetes.
func TestHopeless(t *testing.T) {
	b := newBench()
	for name, token := range map[string]string{
		"nothing":                "",
		"no token":               "a.b",
		"no base64":              "a.!.c",
		"no JSON":                "a." + base64.RawURLEncoding.EncodeToString([]byte("{")) + ".c",
		"an audience of numbers": b.token("0", "good", `["`+wire.Audience+`"]`, "[1]"),
		"another audience":       b.token("0", "good", wire.Audience, "vault"),
		"an expired one":         b.token("0", "good", fmt.Sprint(b.now.Add(time.Hour).Unix()), fmt.Sprint(b.now.Unix())),
		"one for later":          b.token("0", "good", fmt.Sprint(`"nbf":`, b.now.Unix()), fmt.Sprint(`"nbf":`, b.now.Add(time.Hour).Unix())),
		"no pod":                 b.token("0", "good", `"pod"`, `"node"`),
		"another namespace":      b.token("0", "good", `"hpc"`, `"other"`),
		"another UID":            b.token("0", "good", `"uid":"0"`, `"uid":"1"`),
		"too long":               b.token("0", strings.Repeat("x", mostToken)),
	} {
		_, err := b.Authenticate(t.Context(), token)
		assert.ErrorIs(t, err, peerserver.ErrNotAllowed, name)
	}
	assert.Zero(t, b.api.asked.Load())
	_, err := b.Authenticate(t.Context(), b.token("0", "good", `["`+wire.Audience+`"]`, `"`+wire.Audience+`"`))
	assert.NoError(t, err, "an audience may be one text")
}

// TestOtherIssuer: a cluster may get another issuer while the controller runs, and then Kubernetes takes tokens of both.
func TestOtherIssuer(t *testing.T) {
	b := newBench()
	for _, issuer := range []string{"us", "us before", "us from now on"} {
		_, err := b.Authenticate(t.Context(), b.token("0", "good", `"us"`, fmt.Sprintf("%q", issuer)))
		assert.NoError(t, err, issuer)
	}
	_, err := b.Authenticate(t.Context(), b.token("0", "bad", `"us"`, `"them"`))
	assert.ErrorIs(t, err, peerserver.ErrNotAllowed, "Kubernetes knows its issuers")
}

func TestAnswersAreRemembered(t *testing.T) {
	b := newBench()
	good, bad := b.token("0", "good"), b.token("1", "bad")
	for range 3 {
		id, err := b.Authenticate(t.Context(), good)
		assert.NoError(t, err)
		assert.Equal(t, "hpc/a0", id.Pod)
		_, err = b.Authenticate(t.Context(), bad)
		assert.ErrorIs(t, err, peerserver.ErrNotAllowed)
	}
	assert.EqualValues(t, 2, b.api.asked.Load())

	b.later(badTime)
	_, err := b.Authenticate(t.Context(), bad)
	assert.ErrorIs(t, err, peerserver.ErrNotAllowed)
	assert.EqualValues(t, 3, b.api.asked.Load(), "a refusal counts for a moment")
	b.later(goodTime)
	_, err = b.Authenticate(t.Context(), good)
	assert.NoError(t, err)
	assert.EqualValues(t, 4, b.api.asked.Load())
	b.gone["0"] = true
	_, err = b.Authenticate(t.Context(), good)
	assert.ErrorIs(t, err, peerserver.ErrNotAllowed, "the pod is gone")
}

// TestNeverLongerThanTheToken: the token ends before the answer would.
func TestNeverLongerThanTheToken(t *testing.T) {
	b := newBench()
	short := b.token("0", "good", fmt.Sprint(b.now.Add(time.Hour).Unix()), fmt.Sprint(b.now.Add(time.Minute).Unix()))
	_, err := b.Authenticate(t.Context(), short)
	require.NoError(t, err)
	b.later(time.Minute)
	_, err = b.Authenticate(t.Context(), short)
	assert.ErrorIs(t, err, peerserver.ErrNotAllowed)
	assert.EqualValues(t, 1, b.api.asked.Load())
}

func TestNoAnswerIsNoRefusal(t *testing.T) {
	b := newBench()
	b.api.err = errors.New("the API is away")
	_, err := b.Authenticate(t.Context(), b.token("0", "good"))
	assert.NotErrorIs(t, err, peerserver.ErrNotAllowed)
	assert.EqualError(t, err, "cannot ask Kubernetes about a token of the pod hpc/a0: the API is away")
	b.api.err = nil
	_, err = b.Authenticate(t.Context(), b.token("0", "good"))
	assert.NoError(t, err)
}

func TestManyAskOnce(t *testing.T) {
	b := newBench()
	b.api.hold = make(chan struct{})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			_, err := b.Authenticate(t.Context(), b.token("0", "good"))
			assert.NoError(t, err)
		})
	}
	close(b.api.hold)
	all.Wait()
	assert.EqualValues(t, 1, b.api.asked.Load())
}

// TestShares: made-up tokens of a pod cost a bounded number of questions, and other pods none of theirs.
func TestShares(t *testing.T) {
	b := newBench()
	for n := range 1000 {
		_, err := b.Authenticate(t.Context(), b.token("0", fmt.Sprint(n)))
		assert.Error(t, err)
	}
	assert.EqualValues(t, shareBurst, b.api.asked.Load())
	_, err := b.Authenticate(t.Context(), b.token("0", "good"))
	assert.ErrorIs(t, err, peerserver.ErrBusy)
	_, err = b.Authenticate(t.Context(), b.token("1", "good"))
	assert.NoError(t, err)
	b.later(2 * time.Second)
	_, err = b.Authenticate(t.Context(), b.token("0", "good"))
	assert.NoError(t, err, "one question more every two seconds")
	assert.Equal(t, Stats{Reviews: 7, Refused: 5, Delayed: 996, Known: 2}, b.Stats())
}

func TestMakeRoom(t *testing.T) {
	m := map[int]bool{}
	for n := range 100 {
		makeRoom(m, 10, func(over bool) bool { return over })
		m[n] = n%2 == 0
		assert.LessOrEqual(t, len(m), 10)
	}
	makeRoom(m, 10, func(bool) bool { return false })
	assert.Len(t, m, 9)
}

// TestJudge: the pod is the one that Kubernetes names.
func TestJudge(t *testing.T) {
	until := time.Unix(1, 0)
	v, taken := judge(status("a", "1"), 1)
	assert.True(t, taken)
	assert.Equal(t, verified{"hpc", "a", "1", until}, v)
	for name, change := range map[string]func(*authenticationv1.TokenReviewStatus){
		"not authenticated": func(s *authenticationv1.TokenReviewStatus) { s.Authenticated = false },
		"an error":          func(s *authenticationv1.TokenReviewStatus) { s.Error = "x" },
		"no audience":       func(s *authenticationv1.TokenReviewStatus) { s.Audiences = nil },
		"another audience":  func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"api"} },
		"a user":            func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "alice" },
		"no pod":            func(s *authenticationv1.TokenReviewStatus) { s.User.Extra = nil },
	} {
		s := status("a", "1")
		change(&s)
		_, taken := judge(s, 1)
		assert.False(t, taken, name)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(newBench().token("0", "x"))
	f.Fuzz(func(t *testing.T, token string) {
		c, err := read(token)
		if err != nil {
			return
		}
		_, err = json.Marshal(c)
		assert.NoError(t, err)
	})
}
