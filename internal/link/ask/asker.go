package ask

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/link/proof"
)

const (
	// StartLimit is how old a change may be when slurmctld's agent begins its command. The agent that has asked for it
	// waits for Limit.
	StartLimit = 4 * time.Second
	// CommandLimit bounds one command. A slurmctld that takes longer has not answered.
	CommandLimit = 5 * time.Second
	// Limit is how long slurmctld's agent may take: longer than StartLimit and CommandLimit.
	Limit = StartLimit + CommandLimit + time.Second
	// awayFor is how long slurmctld's agent is not asked after it has not answered.
	awayFor = 30 * time.Second
	// slowLimit is for how long slurmctld's agent is asked again that is late with its challenge. It is
	// slow where many ask it at the same time on a busy machine, and it may hang.
	slowLimit = 5 * time.Second
)

// Asker is the side of a node's agent.
type Asker struct {
	// Prover proves that this agent has the cluster's key.
	Prover *proof.Client
	// Slurmctld is host:port of slurmctld, several separated by commas; AgentPort is that of
	// the agents beside them, 0 for none.
	Slurmctld string
	AgentPort int
	Log       func(level slog.Level, text string, attrs ...slog.Attr)

	// back is when slurmctld's agent is asked again, in nanoseconds since 1970.
	back atomic.Int64
}

// Ask has slurmctld make a change. The answer is what slurmctld has said: to its agent, or where
// that is away, refuses or does not say, to the direct question.
func (a *Asker) Ask(ctx context.Context, c Change, direct func(context.Context) error) error {
	r, err := a.ask(ctx, c)
	if err == nil && r.Word == Unasked {
		err = errors.New(r.Text)
	}
	if err != nil {
		a.Log(slog.LevelDebug, "asks slurmctld itself", slog.String("change", string(c.Verb)), slog.Any("error", err))
		return direct(ctx)
	}
	return r.Err(c)
}

// errAway: nobody is asked.
var errAway = errors.New("slurmctld's agent is not asked")

func (a *Asker) ask(ctx context.Context, c Change) (Result, error) {
	if err := c.Check(); err != nil {
		return Result{}, err
	}
	if a.AgentPort == 0 || time.Now().UnixNano() < a.back.Load() {
		return Result{}, errAway
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	for tries := 0; ; tries++ {
		r, err := a.askOnce(ctx, c)
		patient := isCrowded(err) || ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && time.Since(began) < slowLimit
		if err == nil || !patient || !pause(ctx, backoff.Grow(firstPause, tries, lastPause)) {
			a.heed(err)
			return r, err
		}
	}
}

const (
	// firstPause and lastPause are about how long an agent waits that has lost its place in the crowd.
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// isCrowded: slurmctld's agent was there, and has ended the connection. It does so where too many ask at the
// same time. Were slurmctld asked instead, it would have one command of each of them.
func isCrowded(err error) bool {
	return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// pause waits for about d, another time for each agent, and says whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d/2 + rand.N(d)):
		return true
	case <-ctx.Done():
		return false
	}
}

// heed remembers that slurmctld's agent is away.
func (a *Asker) heed(err error) {
	if err != nil && !errors.Is(err, proof.ErrRefused) && !errors.Is(err, context.Canceled) { // nobody waits for the answer
		a.back.Store(time.Now().Add(awayFor).UnixNano())
	}
}

func (a *Asker) askOnce(ctx context.Context, c Change) (Result, error) {
	var faults []error
	for address := range strings.SplitSeq(a.Slurmctld, ",") {
		host, _, _ := net.SplitHostPort(address)
		answer, err := a.Prover.Get(ctx, net.JoinHostPort(host, strconv.Itoa(a.AgentPort)), c.target())
		if err == nil {
			return parseResult(answer.Text)
		}
		faults = append(faults, err)
	}
	return Result{}, errors.Join(faults...)
}
