package slurm

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
)

// Questions are what an agent asks slurmctld. Each has a limit, and some are asked until they are answered.
type Questions struct {
	Client
	// Turns are those that the commands of Client take, nil for none.
	Turns *Turns
	// Least is the limit as long as MessageTimeout is not known. It must not be 0.
	Least time.Duration
	// Done is closed when the agent ends.
	Done <-chan struct{}
	Log  func(level slog.Level, text string, attrs ...slog.Attr)

	// messageTimeout is slurm.conf's, in nanoseconds, 0 as long as it is not known.
	messageTimeout atomic.Int64
	// giveUp ends the question that Inquire has asked last, nil for none.
	giveUp context.CancelFunc
}

// Learn takes MessageTimeout from the cluster's configuration.
func (q *Questions) Learn(cluster Config) {
	if timeout, err := cluster.Seconds("MessageTimeout"); err == nil {
		q.messageTimeout.Store(int64(timeout))
	}
}

// Limit bounds one question. Slurm's commands try for MessageTimeout (slurm.conf(5)):
// one that is given up sooner and asked again would be answered twice.
func (q *Questions) Limit() time.Duration {
	return max(q.Least, time.Duration(q.messageTimeout.Load())+q.Least/3)
}

// Inquire asks in the background; a question of its own that is open still is given up. Only one goroutine calls it.
func (q *Questions) Inquire(ask func(context.Context)) {
	q.GiveUp()
	ctx, cancel := context.WithTimeout(context.Background(), q.Limit())
	q.giveUp = cancel
	go func() {
		defer cancel()
		ask(ctx)
	}()
}

// GiveUp gives up the question that is open. Only the goroutine of Inquire calls it.
func (q *Questions) GiveUp() {
	if q.giveUp != nil {
		q.giveUp()
	}
}

const (
	firstAgain = time.Second
	lastAgain  = 30 * time.Second
)

// UntilOver tries until it works, ctx is over or the agent ends. It logs trouble once.
func (q *Questions) UntilOver(ctx context.Context, trouble string, do func(context.Context) error) {
	for pause := firstAgain; ; pause = min(2*pause, lastAgain) {
		question, cancel := context.WithTimeout(ctx, q.Limit())
		err := do(question)
		cancel()
		if err == nil {
			return
		}
		if pause == firstAgain { // once is enough
			q.Log(slog.LevelWarn, trouble, slog.Any("error", err))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		case <-q.Done:
			return
		}
	}
}

// Comment adds to a job's AdminComment, once.
func (q *Questions) Comment(ctx context.Context, job *Job, text string) error {
	if strings.Contains(job.AdminComment, text) {
		return nil
	}
	if job.AdminComment != "" {
		text = job.AdminComment + "; " + text
	}
	return q.CommentJob(ctx, job, text)
}

// Jobs asks for jobs by their numbers. Those that slurmctld does not know are left out.
func (q *Questions) Jobs(ctx context.Context, ids []string) (all []Job, err error) {
	for _, id := range ids {
		job, err := q.Job(ctx, id)
		if err != nil {
			return all, err
		}
		if job != nil {
			all = append(all, *job)
		}
	}
	return all, nil
}
