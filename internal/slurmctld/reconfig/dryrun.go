package reconfig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// dryRunLimit bounds a dry run, which takes some tenths of a second where the container
// has the CPU for it.
const dryRunLimit = 15 * time.Second

// dryRunDir has one name, so that the next agent finds what a crash has left of it.
func (r *Reloader) dryRunDir() string { return filepath.Join(r.RunDir, "dryrun") }

// dryRun returns what a slurmctld says that does not come up with the candidate. Where a dry
// run is impossible or takes too long, the configuration is not refused: the running slurmctld
// will say what is wrong with it.
func (r *Reloader) dryRun(ctx context.Context, c candidate) (refusal error) {
	r.trying.Lock() // a precheck's may go on still
	defer r.trying.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	d := &dryRun{Reloader: r, set: c, dir: r.dryRunDir()}
	defer func() {
		if err := os.RemoveAll(d.dir); err != nil {
			r.Log(slog.LevelWarn, "cannot remove what a dry run has left", slog.Any("error", err))
		}
	}()
	why, err := d.run(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.Log(slog.LevelWarn, "the check goes on without a dry run", slog.Any("error", err))
		return nil
	case why == "":
		return nil
	}
	return errors.New(probableLine(c.conf, c.Set, why) + "slurmctld (dry run): " + c.Named(d.conf(), why))
}

// run returns why slurmctld does not come up, nothing if it does. An error says why
// slurmctld cannot be tried.
func (d *dryRun) run(ctx context.Context) (why string, err error) {
	if err := d.furnish(); err != nil {
		return "", err
	}
	d.said.besides = d.state() + "/"
	out, err := process.NewOutput("slurmctld", d.said.hear)
	if err != nil {
		return "", err
	}
	p, err := d.Table.Start(d.command(out))
	_ = out.Close()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, dryRunLimit)
	defer cancel()
	defer func() { p.Stop(ctx, unix.SIGKILL) }()
	// Of two slurmctlds in a container that is short of memory, this one has to go.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.PID()), []byte("1000"), 0)
	select {
	case <-d.serving(ctx):
		return "", nil
	case <-p.Done():
		out.Flush()
		return d.result(p.Status())
	case <-ctx.Done():
		return "", fmt.Errorf("slurmctld has not come up within %v", dryRunLimit)
	}
}

// command runs in the foreground, and takes the want of state for what it is (-i).
func (d *dryRun) command(out *process.Output) process.Command {
	return process.Command{
		Path: d.Daemon.Path, Args: []string{"-D", "-i", "-f", filepath.Join(d.conf(), confset.Main)}, Env: d.Daemon.Env,
		Dir: d.dir, Credential: d.Daemon.Credential, Group: true, Unconnected: true, Stdout: out.File(), Stderr: out.File(),
	}
}

// result says why slurmctld has ended. An error is an end that is not the configuration's fault.
func (d *dryRun) result(status process.Status) (why string, err error) {
	words := d.said.String()
	switch {
	case status.Signal == unix.SIGKILL:
		return "", errors.New("slurmctld was killed: the container may be short of memory")
	case strings.Contains(words, "already is listening"):
		return "", fmt.Errorf("another process has taken its port %d", d.port)
	case d.slurmConf().Accounted() && ofAccounts(words):
		return "", fmt.Errorf("slurmdbd may know better: %s", words)
	case words == "":
		return status.String(), nil
	}
	return words, nil
}

// ofAccounts: a QOS may be younger than what slurmctld has stored, and slurmdbd does not know a
// new TRES until the running slurmctld reports it.
func ofAccounts(words string) bool {
	return strings.Contains(words, "invalid qos") || strings.Contains(words, "tres to the database")
}

// serving returns a channel that is closed when slurmctld takes a connection. It listens
// early, and serves when all else is done: until then the kernel keeps the connection waiting.
func (d *dryRun) serving(ctx context.Context) <-chan struct{} {
	serves := make(chan struct{})
	go func() {
		again := time.NewTicker(5 * time.Millisecond)
		defer again.Stop()
		for {
			for _, host := range []string{"127.0.0.1", "::1"} {
				if takes(ctx, net.JoinHostPort(host, strconv.Itoa(d.port))) {
					close(serves)
					return
				}
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return serves
}

// takes says whether the program that listens at an address takes a connection, and closes
// it when it ends without a word.
func takes(ctx context.Context, address string) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if conn.(*net.TCPConn).CloseWrite() != nil {
		return false
	}
	_, err = io.Copy(io.Discard, conn)
	return err == nil
}

// lastWords are the errors that a daemon logs right before its end: the fatal line often
// says less than the lines before it.
type lastWords struct {
	// besides is in lines that do not count.
	besides string

	lock   sync.Mutex
	latest string
	final  []string
}

// unrelated are errors that any slurmctld may log as it starts, and goes on.
var unrelated = []string{"NOTE: Trying backup", "High latency for ", "Job accounting information gathered"}

// mostWords are enough to see what they are about.
const mostWords = 4

func (w *lastWords) hear(l process.Line) {
	l.Text = slurmconf.Hide(l.Text)
	w.lock.Lock()
	defer w.lock.Unlock()
	switch {
	case strings.Contains(l.Text, w.besides), slices.ContainsFunc(unrelated, func(s string) bool { return strings.HasPrefix(l.Text, s) }):
	case l.Level < slog.LevelError:
		w.final = nil
	default:
		w.latest = l.Text
		w.final = append(w.final, l.Text)
	}
}

func (w *lastWords) String() string {
	w.lock.Lock()
	defer w.lock.Unlock()
	words := slices.Compact(slices.Clone(w.final))
	if len(words) == 0 {
		return w.latest
	}
	return strings.Join(words[max(0, len(words)-mostWords):], "; ")
}
