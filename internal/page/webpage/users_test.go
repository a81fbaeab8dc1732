package webpage

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
)

func password(name, word string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(name, word) }
}

// TestPasswords: what is wrong with the file is told by its line, without a word of it.
func TestPasswords(t *testing.T) {
	good, err := bcrypt.GenerateFromPassword([]byte("x"), leastCost)
	require.NoError(t, err)
	for _, c := range []struct{ text, says string }{
		{"alice:" + string(good), ""},
		{"", "it has no user"},
		{"alice", "line 1: want name:hash"},
		{"\n:" + string(good), "line 2: want name:hash"},
		{"alice:{SHA}secretsecret", "line 1: want a hash of bcrypt with a cost from 10 to 15"},
		{"alice:$2y$04$secretsecret", "want a hash of bcrypt"},
		{"alice:" + strings.Replace(string(good), "$10$", "$31$", 1), "want a hash of bcrypt"},
	} {
		file := filepath.Join(t.TempDir(), "users")
		require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
		_, err := New(Options{Passwords: file, Log: slog.New(slog.DiscardHandler)})
		if c.says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.says)
		require.NotContains(t, err.Error(), "secret")
	}
}

// TestEditedPasswords: after an edit, a line with a fault keeps out its own user alone, and is logged
// once a minute without its hash.
func TestEditedPasswords(t *testing.T) {
	file, log := filepath.Join(t.TempDir(), "users"), &bytes.Buffer{}
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	hash, err := bcrypt.GenerateFromPassword([]byte("x"), bcrypt.MinCost)
	require.NoError(t, err)
	write("alice:" + string(hash))
	u, err := newUsers(file, bcrypt.MinCost, nil, newSeldom(slog.New(slog.NewTextHandler(log, nil))))
	require.NoError(t, err)
	write("bob:$2y$03$secret\n\nalice:" + string(hash) + "\ncarol")
	for range 3 {
		_, err = u.byPassword(t.Context(), "bob", "x", "a")
		require.Equal(t, errDenied, err)
	}
	name, err := u.byPassword(t.Context(), "alice", "x", "a")
	require.NoError(t, err)
	require.Equal(t, "alice", name)
	require.Equal(t, 1, strings.Count(log.String(), "line 1: "))
	require.Contains(t, log.String(), "line 4: ")
	require.NotContains(t, log.String(), "secret")
	write("")
	_, err = u.byPassword(t.Context(), "bob", "x", "a")
	require.ErrorContains(t, err, "it has no user")
}

// TestGuessing: one password of an address waits for the judge, a few wait behind it, and a reader
// who is known waits for nobody.
func TestGuessing(t *testing.T) {
	u := withAlice(t)
	name, err := u.byPassword(t.Context(), "alice", "x", "a")
	require.NoError(t, err)
	require.Equal(t, "alice", name)
	u.judge <- struct{}{} // one password takes for ever
	ctx, end := context.WithCancel(t.Context())
	waits := make(chan error, mostWaiting)
	for range mostWaiting {
		go func() {
			_, err := u.turn(ctx, "a")
			waits <- err
		}()
	}
	require.Eventually(t, func() bool {
		u.lock.Lock()
		defer u.lock.Unlock()
		q := u.queue["a"]
		return q != nil && q.waits == mostWaiting && len(q.first) == 1
	}, limit, time.Millisecond)
	_, err = u.turn(ctx, "a")
	require.Equal(t, errBusy, err)
	_, err = u.byPassword(ctx, "alice", "x", "a")
	require.NoError(t, err)
	end()
	for range mostWaiting {
		require.Equal(t, errBusy, <-waits)
	}
	<-u.judge
	free, err := u.turn(t.Context(), "a")
	require.NoError(t, err)
	free()
	require.Empty(t, u.queue)
	require.Empty(t, u.judge)
}

// withAlice judges by a file in which alice has the password "x".
func withAlice(t *testing.T) *users {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("x"), bcrypt.MinCost)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "alice:%s\n", hash), 0o600))
	u, err := newUsers(file, bcrypt.MinCost, nil, newSeldom(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	return u
}

// TestNobody: a name that does not exist takes as long as the slowest that does.
func TestNobody(t *testing.T) {
	for want, all := range map[int]map[string][]byte{
		bcrypt.MinCost: {}, 6: {"alice": nobody(nil, bcrypt.MinCost), "bob": nobody(map[string][]byte{"": []byte("$2y$06$" + strings.Repeat("x", 53))}, bcrypt.MinCost)},
	} {
		hash := nobody(all, bcrypt.MinCost)
		cost, err := bcrypt.Cost(hash)
		require.NoError(t, err)
		require.Equal(t, want, cost)
		require.Equal(t, bcrypt.ErrMismatchedHashAndPassword, bcrypt.CompareHashAndPassword(hash, []byte("x")))
	}
}

// TestOneJudgement: requests with the same password that wait together are judged once.
func TestOneJudgement(t *testing.T) {
	u := withAlice(t)
	u.judge <- struct{}{}
	names := make(chan string, 1)
	go func() {
		name, _ := u.byPassword(context.Background(), "alice", "x", "a")
		names <- name
	}()
	require.Eventually(t, func() bool {
		u.lock.Lock()
		defer u.lock.Unlock()
		return u.queue["a"] != nil && len(u.queue["a"].first) == 1
	}, limit, time.Millisecond)
	require.NoError(t, os.Remove(u.file))
	u.remember(u.key("password", "alice", "x"), pass{"alice", time.Now().Add(passTime), nil})
	<-u.judge
	require.Equal(t, "alice", <-names)
}

// TestTokensAreBounded: the agent judges a few tokens at once, and none that has not a token's form.
func TestTokensAreBounded(t *testing.T) {
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	u, err := newUsers("", leastCost, func(context.Context, string) (string, time.Time, error) {
		asked <- struct{}{}
		<-answer
		return "bob", time.Now().Add(time.Hour), nil
	}, nil)
	require.NoError(t, err)
	for _, token := range []string{"", "x", "a.b", "a.b.c.d"} {
		_, err := u.byToken(t.Context(), "", token)
		require.Equal(t, errDenied, err)
	}
	errs := make(chan error, mostAsks)
	for i := range mostAsks {
		go func() {
			_, err := u.byToken(t.Context(), "", fmt.Sprintf("a.b.%d", i))
			errs <- err
		}()
	}
	for range mostAsks {
		<-asked
	}
	ctx, end := context.WithTimeout(t.Context(), time.Millisecond)
	defer end()
	_, err = u.byToken(ctx, "", "a.b.c")
	require.Equal(t, errBusy, err)
	require.Empty(t, asked)
	close(answer)
	for range mostAsks {
		require.NoError(t, <-errs)
	}
}

// TestKnownForAMoment: a password is looked up again after a while. It is right without another
// judgement while its hash is in the file, and counts no more when its user is taken out.
func TestKnownForAMoment(t *testing.T) {
	u := withAlice(t)
	now := time.Now()
	u.now = func() time.Time { return now }
	require.NotEqual(t, u.key("password", "alice", "x"), u.key("password", "alic", "ex"))
	ask := func() error {
		_, err := u.byPassword(t.Context(), "alice", "x", "a")
		return err
	}
	require.NoError(t, ask())
	u.judge <- struct{}{} // nobody is judged
	for range 3 {
		now = now.Add(passTime)
		require.NoError(t, ask())
	}
	<-u.judge
	was, err := os.ReadFile(u.file)
	require.NoError(t, err)
	other, err := bcrypt.GenerateFromPassword([]byte("y"), bcrypt.MinCost)
	require.NoError(t, err)
	for _, text := range []string{"bob:" + string(other), "alice:" + string(other)} {
		require.NoError(t, os.WriteFile(u.file, was, 0o600))
		require.NoError(t, ask())
		require.NoError(t, os.WriteFile(u.file, []byte(text), 0o600))
		require.NoError(t, ask(), "for a moment")
		now = now.Add(passTime)
		require.Equal(t, errDenied, ask())
	}
	for i := range 3 * mostKnown {
		u.remember(u.key(fmt.Sprint(i)), pass{"x", now.Add(time.Hour), nil})
	}
	require.LessOrEqual(t, len(u.known), mostKnown)
}
