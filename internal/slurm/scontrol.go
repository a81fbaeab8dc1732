package slurm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/child"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// Scontrol is the Client that runs scontrol(1).
type Scontrol struct {
	// Path is scontrol's absolute path; the others are those of their names.
	Path, Scancel, Sinfo, Squeue, Sdiag string
	// Env is its whole environment: where the configuration is, nothing more.
	Env []string
	// Turn, if there is one, waits until a command may run, and done is called after its end.
	Turn func(context.Context) (done func(), err error)
	// Asked, if there is one, is called with each command; the context ends with it.
	Asked func(context.Context)
}

var _ Client = Scontrol{}

// Ping asks "scontrol ping"; it answers for every slurmctld, and one that is
// up is enough: a backup serves as well.
func (s Scontrol) Ping(ctx context.Context) error {
	var answer struct {
		Pings []struct {
			Hostname   string `json:"hostname"`
			Responding bool   `json:"responding"`
		} `json:"pings"`
	}
	if err := s.ask(ctx, &answer, "ping", "--json"); err != nil {
		return err
	}
	var down []string
	for _, p := range answer.Pings {
		if p.Responding {
			return nil
		}
		down = append(down, p.Hostname)
	}
	return fmt.Errorf("slurmctld does not answer on %s", strings.Join(down, ", "))
}

// listless is an answer without the list that it should have: that is not an empty one.
func listless(command, list string) error {
	return fmt.Errorf("cannot read the answer of scontrol %s: there is no list %q in it", command, list)
}

// Reconfigure runs "scontrol reconfigure".
func (s Scontrol) Reconfigure(ctx context.Context) error {
	_, err := s.run(ctx, "reconfigure")
	return err
}

// Parse runs "scontrol show hostnames", which reads slurm.conf first.
func (s Scontrol) Parse(ctx context.Context, path string) error {
	env := slices.DeleteFunc(slices.Clone(s.Env), func(e string) bool { return strings.HasPrefix(e, "SLURM_CONF") })
	parser := Scontrol{Path: s.Path, Env: append(env, "SLURM_CONF="+path)}
	_, err := parser.run(ctx, "show", "hostnames", "a")
	return err
}

// Registered asks "sacctmgr show cluster", which is beside scontrol. Names of
// clusters are in small letters there.
func (s Scontrol) Registered(ctx context.Context, cluster string) (bool, error) {
	sacctmgr := exec.CommandContext(ctx, filepath.Join(filepath.Dir(s.Path), "sacctmgr"), "--noheader", "--parsable2",
		"show", "cluster", "format=Cluster")
	out, err := s.command(ctx, "sacctmgr show cluster", sacctmgr)
	return slices.Contains(strings.Fields(string(out)), strings.ToLower(cluster)), err
}

// Config asks "scontrol show config", which has no JSON.
func (s Scontrol) Config(ctx context.Context) (Config, error) {
	out, err := s.run(ctx, "show", "config")
	if err != nil {
		return nil, err
	}
	c := ParseConfig(string(out))
	if c["SLURM_VERSION"] == "" {
		return nil, errors.New("cannot read the answer of scontrol show config: there is no SLURM_VERSION in it")
	}
	return c, nil
}

// DeleteNode runs "scontrol delete nodename=".
func (s Scontrol) DeleteNode(ctx context.Context, name string) error {
	_, err := s.run(ctx, "delete", "nodename="+name)
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "Invalid node name"):
		return fmt.Errorf("cannot delete the record of node %s: %w", name, ErrNoNode)
	case strings.Contains(err.Error(), "Requested nodes are busy"): // no name has spaces in it
		return fmt.Errorf("cannot delete the record of node %s: %w", name, ErrBusy)
	}
	return err
}

// DeleteNodes runs "scontrol delete nodename=" for a host list. slurmctld deletes those that it can,
// and says which it has not (24.11.5, 26.05.5).
func (s Scontrol) DeleteNodes(ctx context.Context, names string) (kept string, err error) {
	_, err = s.run(ctx, "delete", "nodename="+names)
	if err == nil || errors.Is(err, ErrUnreachable) {
		return "", err
	}
	if said := keptNodes().FindStringSubmatch(err.Error()); said != nil {
		kept = said[1]
	}
	return kept, err
}

var keptNodes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`failed to delete nodes ([^\s;]+)`) })

// CreateNodes runs "scontrol create nodename=".
func (s Scontrol) CreateNodes(ctx context.Context, names string, parameters []string) error {
	_, err := s.run(ctx, append([]string{"create", "NodeName=" + names}, parameters...)...)
	return err
}

// DrainNode runs "scontrol update state=drain".
func (s Scontrol) DrainNode(ctx context.Context, name, reason string) error {
	_, err := s.run(ctx, "update", "nodename="+name, "state=drain", "reason="+reason)
	return err
}

// FailNode runs "scontrol update state=down".
func (s Scontrol) FailNode(ctx context.Context, name, reason string) error {
	_, err := s.run(ctx, "update", "nodename="+name, "state=down", "reason="+reason)
	return err
}

// PowerDownNode runs "scontrol update state=power_down_asap".
func (s Scontrol) PowerDownNode(ctx context.Context, name, reason string) error {
	args := []string{"update", "nodename=" + name, "state=power_down_asap"}
	if reason != "" {
		args = append(args, "reason="+reason)
	}
	_, err := s.run(ctx, args...)
	return err
}

// PowerOffNode runs "scontrol update state=power_down_force".
func (s Scontrol) PowerOffNode(ctx context.Context, name, reason string) error {
	_, err := s.run(ctx, "update", "nodename="+name, "state=power_down_force", "reason="+reason)
	return err
}

// ResumeNode runs "scontrol update state=resume".
func (s Scontrol) ResumeNode(ctx context.Context, name string) error {
	_, err := s.run(ctx, "update", "nodename="+name, "state=resume")
	return err
}

// ReinstateNode runs "scontrol update state=resume reason=".
func (s Scontrol) ReinstateNode(ctx context.Context, name string) error {
	_, err := s.run(ctx, "update", "nodename="+name, "state=resume", "reason="+reasons.Back)
	return err
}

// UpdateNode runs "scontrol update". What slurmctld does not know or take is an
// error; that it did not answer is ErrUnreachable.
func (s Scontrol) UpdateNode(ctx context.Context, name string, fields []string) error {
	_, err := s.run(ctx, append([]string{"update", "nodename=" + name}, fields...)...)
	return err
}

// ask runs scontrol with --json. Its exit status is not enough: some faults
// are only in the answer's own list of errors.
func (s Scontrol) ask(ctx context.Context, answer any, args ...string) error {
	out, err := s.run(ctx, args...)
	if err != nil {
		return err
	}
	return read("scontrol "+strings.Join(args, " "), out, answer)
}

// read reads what a command of Slurm's answers to --json.
func read(what string, out []byte, answer any) error {
	var failed struct {
		Errors faults `json:"errors"`
	}
	if err := errors.Join(json.Unmarshal(out, &failed), json.Unmarshal(out, answer)); err != nil {
		return fmt.Errorf("cannot read the answer of %s: %w", what, err)
	}
	return failed.Errors.first(what)
}

// faults are the errors that an answer lists.
type faults []struct {
	Description string `json:"description"`
	Error       string `json:"error"`
}

func (f faults) first(what string) error {
	if len(f) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", what, strings.TrimSpace(f[0].Description+" "+f[0].Error))
}

func (s Scontrol) run(ctx context.Context, args ...string) ([]byte, error) {
	return s.command(ctx, "scontrol "+strings.Join(args, " "), exec.CommandContext(ctx, s.Path, args...))
}

func (s Scontrol) command(ctx context.Context, what string, cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	if err := s.commandTo(ctx, what, cmd, &out, out.String); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// commandTo runs a command that writes its answer to out. Some commands print the cause of a
// failure there, which printed returns.
func (s Scontrol) commandTo(ctx context.Context, what string, cmd *exec.Cmd, out io.Writer, printed func() string) error {
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = out, &errs, s.Env
	cmd.WaitDelay = readLimit
	if s.Turn != nil {
		done, err := s.Turn(ctx)
		if err != nil {
			return &silence{what + ": another question had no answer in time", true}
		}
		defer done()
	}
	if s.Asked != nil {
		asked, answered := context.WithCancel(ctx)
		defer answered()
		s.Asked(asked)
	}
	err := run(ctx, cmd)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return &silence{what + ": no answer in time", true}
	}
	said := lastWords(errs.String() + printed())
	if unreachable(said) {
		return &silence{what + ": " + said, false}
	}
	if said != "" {
		return fmt.Errorf("%s: %s", what, said)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// readLimit is how long the answer of a command that has ended may take to be read: on a machine without a free CPU, the
// agent itself may not run for a second. killLimit is how long a command may take to end by SIGKILL.
const (
	readLimit = 10 * time.Second
	killLimit = 2 * time.Second
)

// run runs a command. One that even SIGKILL does not end, because it waits for a file
// system that does not answer, is left to itself.
func run(ctx context.Context, cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- child.Run(cmd) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(killLimit):
		return ctx.Err()
	}
}

// silence is ErrUnreachable in scontrol's words, and context.DeadlineExceeded
// where scontrol was still trying when the time for the question was over.
type silence struct {
	text string
	late bool
}

func (s *silence) Error() string { return s.text }

func (s *silence) Is(target error) bool {
	return target == ErrUnreachable || s.late && target == context.DeadlineExceeded
}

// unreachable knows what scontrol says when nobody has answered it: the texts
// of SLURM_COMMUNICATIONS_…_ERROR and ESLURM_… of the connection
// (slurm_errno.c), which come with more about the cause. Of a job, scontrol
// says "Unexpected message received" when none was.
func unreachable(said string) bool {
	for _, text := range []string{
		"Unable to contact slurm controller", "Socket timed out", "Communication ",
		"Message send failure", "Message receive failure", "Zero Bytes were transmitted", "Unexpected message received", "sack sockets",
	} {
		if strings.Contains(said, text) {
			return true
		}
	}
	return false
}

// lastWords joins what scontrol said into one line, without its prefixes.
func lastWords(text string) string {
	var said []string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(line, "scontrol: "))
		line = strings.TrimPrefix(strings.TrimPrefix(line, "scancel: "), "squeue: ")
		line = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "sinfo: "), "sacctmgr: "), "sbatch: ")
		line = strings.TrimPrefix(strings.TrimPrefix(line, "error: "), "fatal: ")
		if line != "" {
			said = append(said, line)
		}
	}
	return strings.Join(said, "; ")
}
