package webpage

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/slurmlet/slurmlet/internal/page/pagefacts"
)

// users judges who asks: by a file of passwords (htpasswd -B -C 10), and by Slurm's tokens, which
// slurmctld's agent judges.
type users struct {
	file  string                                                             // empty for none
	least int                                                                // bcrypt's cost of a hash in the file
	token func(ctx context.Context, token string) (string, time.Time, error) // nil: no tokens
	now   func() time.Time
	log   *seldom

	salt  [32]byte
	lock  sync.Mutex
	known map[[32]byte]pass
	queue map[string]*queue // of each address
	judge chan struct{}     // one password at a time: bcrypt is slow, so that guessing is
	asks  chan struct{}     // tokens that the agent judges
}

// pass is a password or token that was right a moment ago.
type pass struct {
	name  string
	until time.Time
	hash  []byte // of the password, nil for a token
}

// queue are the passwords of one address. The first of them waits for the judge.
type queue struct {
	first chan struct{}
	waits int
}

const (
	// passTime is how long a user who is taken out of the file is still let in.
	passTime  = time.Minute
	mostKnown = 1 << 10
	// mostWaiting is how many passwords of one address wait; an ingress makes all readers one.
	mostWaiting = 8
	// judgePatience is how long a password waits for its turn.
	judgePatience = 3 * time.Second
	// mostAsks is how many tokens the agent judges at once. Others wait as long as a password.
	mostAsks = 4
	// mostPassword is bcrypt's limit in bytes, and mostToken that of a header.
	mostPassword, mostToken = 72, 4 << 10
	// tokenDots are between the parts of a token.
	tokenDots = 2
	// leastCost and mostCost are bcrypt's: 15 takes some two seconds.
	leastCost, mostCost = 10, 15
	// mostFaults is how many lines of the file an error names.
	mostFaults = 10
)

var (
	errDenied = errors.New("wrong name or password")
	errBusy   = errors.New("too many passwords at once")
)

func newUsers(file string, least int, token func(context.Context, string) (string, time.Time, error), log *seldom) (*users, error) {
	u := &users{file: file, least: least, token: token, now: time.Now, log: log, known: map[[32]byte]pass{}, queue: map[string]*queue{}, judge: make(chan struct{}, 1), asks: make(chan struct{}, mostAsks)}
	if _, err := rand.Read(u.salt[:]); err != nil {
		return nil, err
	}
	if file != "" {
		if _, err := readPasswords(file, least); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// any: somebody can sign in.
func (u *users) any() bool { return u.file != "" || u.token != nil }

// name is who asks, empty for a stranger. errDenied: who asks says to be somebody, and is not.
func (u *users) name(ctx context.Context, r *http.Request, address string) (string, error) {
	if token := r.Header.Get(pagefacts.TokenHeader); token != "" {
		return u.byToken(ctx, "", token)
	}
	header := r.Header.Get("Authorization")
	if header == "" {
		return "", nil
	}
	if kind, token, _ := strings.Cut(header, " "); strings.EqualFold(kind, "Bearer") {
		return u.byToken(ctx, "", strings.TrimSpace(token))
	}
	name, password, given := r.BasicAuth()
	switch {
	case !given || name == "":
		return "", errDenied
	case u.token != nil && strings.HasPrefix(password, "eyJ") && strings.Count(password, ".") == tokenDots:
		return u.byToken(ctx, name, password)
	}
	return u.byPassword(ctx, name, password, address)
}

// byToken: the token's user must be the one of the name, if there is one.
func (u *users) byToken(ctx context.Context, name, token string) (string, error) {
	if u.token == nil || len(token) > mostToken || strings.Count(token, ".") != tokenDots {
		return "", errDenied
	}
	key := u.key("token", name, token)
	if whose, found := u.remembered(key); found {
		return whose, nil
	}
	whose, until, err := u.askAgent(ctx, token)
	switch {
	case errors.Is(err, pagefacts.ErrToken):
		return "", errDenied
	case err != nil:
		return "", err
	case whose == "" || name != "" && name != whose || !u.now().Before(until):
		return "", errDenied
	}
	u.remember(key, pass{whose, until, nil})
	return whose, nil
}

func (u *users) askAgent(ctx context.Context, token string) (whose string, until time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, judgePatience)
	defer cancel()
	select {
	case u.asks <- struct{}{}:
		defer func() { <-u.asks }()
		return u.token(ctx, token)
	case <-ctx.Done():
		return "", time.Time{}, errBusy
	}
}

func (u *users) byPassword(ctx context.Context, name, password, address string) (string, error) {
	if u.file == "" || len(password) > mostPassword {
		return "", errDenied
	}
	key := u.key("password", name, password)
	if whose, found := u.again(key); found {
		return whose, nil
	}
	free, err := u.turn(ctx, address)
	if err != nil {
		return "", err
	}
	defer free()
	if whose, found := u.remembered(key); found {
		return whose, nil // another of the reader's requests had its turn before
	}
	all, err := u.passwords()
	if err != nil {
		return "", err
	}
	hash, found := all[name]
	if !found {
		hash = nobody(all, u.least)
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || !found {
		return "", errDenied
	}
	u.remember(key, pass{name, u.now().Add(passTime), hash})
	return name, nil
}

// again lets a password in without a turn if it was right before and its hash is still in the file.
func (u *users) again(key [32]byte) (string, bool) {
	if whose, found := u.remembered(key); found {
		return whose, true
	}
	u.lock.Lock()
	was, found := u.known[key]
	u.lock.Unlock()
	if !found {
		return "", false
	}
	all, err := u.passwords()
	if err != nil || !bytes.Equal(all[was.name], was.hash) {
		u.lock.Lock()
		delete(u.known, key)
		u.lock.Unlock()
		return "", false
	}
	was.until = u.now().Add(passTime)
	u.remember(key, was)
	return was.name, true
}

// turn waits until no other password is judged. One password of each address waits for the judge,
// so that no address keeps another one out.
func (u *users) turn(ctx context.Context, address string) (free func(), err error) {
	q, err := u.enter(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, judgePatience)
	defer cancel()
	select {
	case q.first <- struct{}{}:
	case <-ctx.Done():
		u.leave(address)
		return nil, errBusy
	}
	select {
	case u.judge <- struct{}{}:
		return func() { <-u.judge; <-q.first; u.leave(address) }, nil
	case <-ctx.Done():
		<-q.first
		u.leave(address)
		return nil, errBusy
	}
}

func (u *users) enter(address string) (*queue, error) {
	u.lock.Lock()
	defer u.lock.Unlock()
	q := u.queue[address]
	if q == nil {
		q = &queue{first: make(chan struct{}, 1)}
		u.queue[address] = q
	}
	if q.waits == mostWaiting {
		return nil, errBusy
	}
	q.waits++
	return q, nil
}

func (u *users) leave(address string) {
	u.lock.Lock()
	defer u.lock.Unlock()
	if q := u.queue[address]; q.waits > 1 {
		q.waits--
	} else {
		delete(u.queue, address)
	}
}

// key stands for a password or token, which is not kept itself.
func (u *users) key(parts ...string) (key [32]byte) {
	m := hmac.New(sha256.New, u.salt[:])
	for _, part := range parts {
		fmt.Fprintf(m, "%d:%s", len(part), part)
	}
	m.Sum(key[:0])
	return key
}

func (u *users) remembered(key [32]byte) (string, bool) {
	u.lock.Lock()
	defer u.lock.Unlock()
	p, found := u.known[key]
	return p.name, found && u.now().Before(p.until)
}

func (u *users) remember(key [32]byte, p pass) {
	if last := u.now().Add(passTime); p.until.After(last) {
		p.until = last
	}
	u.lock.Lock()
	defer u.lock.Unlock()
	if len(u.known) >= mostKnown {
		clear(u.known)
	}
	u.known[key] = p
}

// nobody is the hash of a password that nobody has. It takes as long as the slowest of the file, so
// that the time does not tell which names exist.
func nobody(all map[string][]byte, least int) []byte {
	highest := least
	for _, hash := range all {
		cost, _ := bcrypt.Cost(hash) // readPasswords has looked
		highest = max(highest, cost)
	}
	return fmt.Appendf(nil, "$2a$%02d$7EqJtq98hPqEX7fNZaFWoOhi5vZ0h0mXr0p6s1rZ8oTn2FqV0mLxS", highest)
}

// passwords reads the file anew. A line with a fault keeps out its own user alone.
func (u *users) passwords() (map[string][]byte, error) {
	all, err := readPasswords(u.file, u.least)
	if len(all) == 0 {
		return nil, err
	}
	if err != nil {
		u.log.warn("some users cannot sign in", err)
	}
	return all, nil
}

// readPasswords reads lines as htpasswd -B writes them. It returns the good ones, and an error that
// names the others without a word of them.
func readPasswords(file string, least int) (map[string][]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the passwords: %w", err)
	}
	all := map[string][]byte{}
	var faults []error
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		name, hash, found := bytes.Cut(line, []byte(":"))
		cost, err := bcrypt.Cost(hash)
		switch {
		case !found || len(name) == 0:
			faults = append(faults, fmt.Errorf("line %d: want name:hash", n))
		case err != nil || cost < least || cost > mostCost:
			faults = append(faults, fmt.Errorf("line %d: want a hash of bcrypt with a cost from %d to %d, as htpasswd -B -C %d writes it", n, least, mostCost, least))
		default:
			all[string(name)] = hash
		}
	}
	if len(all) == 0 && len(faults) == 0 {
		faults = append(faults, errors.New("it has no user"))
	}
	if len(faults) > 0 {
		return all, fmt.Errorf("cannot use %s: %w", file, errors.Join(faults[:min(len(faults), mostFaults)]...))
	}
	return all, nil
}
