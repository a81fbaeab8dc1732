package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/internal/process"
)

// trial is a slurmctld that is started with a candidate, to see whether it comes up,
// and is killed then. It harms nobody: its files and its state are its own, it can
// connect to nothing, and what it would run is left out (trial_conf.go).
type trial struct {
	agent *Agent
	set   candidate
	// dir holds all that is its own, and is removed with it.
	dir  string
	port int
	said lastWords
}

// trialLimit bounds a trial, which takes some tenths of a second where the container
// has the CPU for it.
const trialLimit = 15 * time.Second

// trialDir has one name, so that the next agent finds what a crash has left of it.
func (c Config) trialDir() string { return filepath.Join(c.RunDir, "trial") }

// tried is what a throw-away slurmctld says. Where it cannot be had, or says nothing
// in time, the real one will: that is no fault of the configuration.
func (a *Agent) tried(ctx context.Context, c candidate) (refusal error) {
	a.conf.trying.Lock() // a rehearsal's may go on still
	defer a.conf.trying.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t := &trial{agent: a, set: c, dir: a.Config.trialDir()}
	defer func() {
		if err := os.RemoveAll(t.dir); err != nil {
			a.tell(slog.LevelWarn, "cannot remove what a throw-away slurmctld has left", slog.Any("error", err))
		}
	}()
	why, err := t.run(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		a.tell(slog.LevelWarn, "going on without a throw-away slurmctld", slog.Any("error", err))
		return nil
	case why == "":
		return nil
	}
	return errors.New(where(c.conf, c.Set, why) + "slurmctld, on trial: " + c.Named(t.conf(), why))
}

// run returns why slurmctld does not come up, nothing if it does. An error is what
// keeps it from being tried.
func (t *trial) run(ctx context.Context) (why string, err error) {
	if err := t.furnish(); err != nil {
		return "", err
	}
	t.said.besides = t.state() + "/"
	out, err := process.NewOutput(t.agent.daemon.program, t.said.hear)
	if err != nil {
		return "", err
	}
	p, err := t.agent.Table.Start(t.command(out))
	_ = out.Close()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	defer func() { p.Stop(ctx, unix.SIGKILL) }()
	// Of two slurmctlds in a container that is short of memory, this one has to go.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.PID()), []byte("1000"), 0)
	select {
	case <-t.serving(ctx):
		return "", nil
	case <-p.Done():
		out.Flush()
		return t.judged(p.Status())
	case <-ctx.Done():
		return "", fmt.Errorf("it has not come up within %v", trialLimit)
	case <-t.agent.over:
		return "", errors.New("the agent ends")
	}
}

// command runs in the foreground, and takes the want of state for what it is (-i).
func (t *trial) command(out *process.Output) process.Command {
	d := t.agent.daemon
	return process.Command{
		Path: d.path, Args: []string{"-D", "-i", "-f", filepath.Join(t.conf(), confset.Main)}, Env: d.environ(t.agent),
		Dir: t.dir, Credential: d.credential, Group: true, Unconnected: true, Stdout: out.File(), Stderr: out.File(),
	}
}

// judged tells what of its end is the configuration's fault.
func (t *trial) judged(status process.Status) (why string, err error) {
	words := t.said.String()
	switch {
	case status.Signal == unix.SIGKILL:
		return "", errors.New("it was killed: the container may be short of memory")
	case strings.Contains(words, "already is listening"):
		return "", fmt.Errorf("somebody else has taken its port %d", t.port)
	case t.accounted() && ofAccounts(words):
		return "", fmt.Errorf("slurmdbd may know better: %s", words)
	case words == "":
		return status.String(), nil
	}
	return words, nil
}

// furnish lays out what is its own, and gives it to its user last.
func (t *trial) furnish() error {
	uid, gid := t.agent.daemon.uid(), t.agent.daemon.gid()
	err := os.RemoveAll(t.dir)
	for _, dir := range []string{t.dir, t.state()} {
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot make room for it: %v", err)
	}
	if _, err = t.agent.stageIn(confset.Store{Dir: t.dir, Name: "conf", UID: uid, GID: gid}, t.set.Set); err != nil {
		return err
	}
	if t.port, err = freePort(); err != nil {
		return err
	}
	if err := t.takeAccounts(); err != nil {
		return err
	}
	// conf.1 is slurmctld's by now, but nobody else gets into t.dir yet.
	if err := t.write(filepath.Join(t.conf(), confset.Main), []byte(t.text())); err != nil {
		return err
	}
	if err := errors.Join(os.Chown(t.state(), uid, gid), os.Chown(t.dir, uid, gid)); err != nil {
		return fmt.Errorf("cannot make room for it: %v", err)
	}
	return nil
}

// conf is where the first set of a store is staged.
func (t *trial) conf() string { return filepath.Join(t.dir, "conf.1") }

func (t *trial) state() string { return filepath.Join(t.dir, "state") }

// write makes a file that is slurmctld's alone, whatever was there.
func (t *trial) write(path string, data []byte) error {
	_ = os.Remove(path)
	err := os.WriteFile(path, data, 0o600)
	if err == nil {
		err = os.Chown(path, t.agent.daemon.uid(), t.agent.daemon.gid())
	}
	if err != nil {
		return fmt.Errorf("cannot make room for it: %v", err)
	}
	return nil
}

// accounts are the files of StateSaveLocation in which slurmctld keeps the cluster's
// name and what slurmdbd has told. It starts with them when slurmdbd is away, which for
// a trial it always is.
var accounts = []string{"clustername", "assoc_mgr_state", "last_tres"}

func (t *trial) takeAccounts() error {
	from, _ := t.slurmConf().Value("StateSaveLocation")
	for _, name := range accounts {
		data, err := readBelow(from, name)
		switch {
		case err == nil:
			err = t.write(filepath.Join(t.state(), name), data)
		case t.accounted():
			err = fmt.Errorf("slurmctld has not kept yet what slurmdbd tells: %v", err)
		default:
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readBelow reads a file in a directory that is SlurmUser's: it is no way to another.
func readBelow(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no file", f.Name()))
	}
	return io.ReadAll(f)
}

// accounted: the cluster has a slurmdbd.
func (t *trial) accounted() bool {
	storage, _ := t.slurmConf().Value("AccountingStorageType")
	return isSlurmdbd(storage)
}

// isSlurmdbd of AccountingStorageType, with the plugin's kind before it or without.
func isSlurmdbd(storage string) bool {
	return strings.TrimPrefix(storage, "accounting_storage/") == "slurmdbd"
}

// ofAccounts: a QOS may be younger than what slurmctld has kept, and what is to be
// counted is new to slurmdbd until the real slurmctld tells it.
func ofAccounts(words string) bool {
	return strings.Contains(words, "invalid qos") || strings.Contains(words, "tres to the database")
}

// freePort is one that nobody has now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return 0, fmt.Errorf("cannot find a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
