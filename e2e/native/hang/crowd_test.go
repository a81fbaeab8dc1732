//go:build e2e

package hang

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
)

// silentConnections is what a user opens in a node: more than slurmd serves at once.
const silentConnections = 900

// answerLimit is how long another user's command may take meanwhile. It was 46 to 90 s where slurmd itself listened.
const answerLimit = 20 * time.Second

// toSack opens connections to slurmd's socket, to slurmdsPort to its port, and says nothing on them.
const (
	toSack        = `AF_UNIX, scalar sockaddr_un("/run/slurm/sack.socket")`
	toSlurmdsPort = `AF_INET, scalar sockaddr_in(6818, inet_aton("127.0.0.1"))`
)

// silent holds so many connections, and makes anew those that are ended.
const silent = `use Socket; $| = 1; my ($n, $family, $to) = ($ARGV[0], TO); my @c;
sub one { socket(my $f, $family, SOCK_STREAM, 0) or die; connect($f, $to) or die $!; $f }
push @c, one() for 1..$n; print "held\n";
while (1) { sleep 1; for (@c) {
	my $r = recv($_, my $b, 1, MSG_PEEK | MSG_DONTWAIT); $_ = one() if defined $r ? $b eq "" : $!{ECONNRESET} } }`

// meanwhile is a job that outlives the crowd's time.
var meanwhile = fmt.Sprintf("sleep %.0f", (crowdTime() + 9*time.Second).Seconds())

// slurmctld runs without an agent here: it is away.
var crowdCases = []testCase{
	{"a user has 900 silent connections to sack.socket", "", meanwhile, crowded(toSack), agent.ExitOK, "COMPLETED"},
	{"a user has 900 silent connections to slurmd's port", "", meanwhile, crowded(toSlurmdsPort), agent.ExitOK, "COMPLETED"},
}

// crowdTime is how long the connections are held before the pod's end: five minutes with SLURMLET_E2E_FULL=1.
func crowdTime() time.Duration {
	if os.Getenv("SLURMLET_E2E_FULL") == "1" {
		return 5 * time.Minute
	}
	return 0
}

// crowded: another user's command is answered, slurmd lives on, and the pod ends in order.
func crowded(to string) func(*world) error {
	return func(w *world) (err error) {
		leave, err := w.crowd(to)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, leave()) }()
		slurmd := w.pids("slurmd")
		began := time.Now()
		for i := 0; i < 3 || time.Since(began) < crowdTime(); i++ {
			if err := w.squeueAs("daemon"); err != nil {
				return err
			}
			<-time.After(min(crowdTime(), time.Second))
		}
		if err := w.node.Terminate(); err != nil {
			return err
		}
		if err := w.squeueAs("daemon"); err != nil {
			return err
		}
		if err := w.wait("the agent has ended", func() bool { return closed(w.node.Exited) || w.agentsExit() != "" }); err != nil {
			return err
		}
		if w.told("slurmd hangs") == nil {
			return fmt.Errorf("slurmd %v was taken for one that hangs", slurmd)
		}
		return nil
	}
}

// inNode is a command of a user's in the node.
func (w *world) inNode(ctx context.Context, user string, args ...string) *exec.Cmd {
	enter := []string{
		"--target", strconv.Itoa(w.node.PID()), "--mount", "--net", "--root", "--wd",
		"setpriv", "--reuid", user, "--regid", "65534", "--clear-groups",
	}
	return exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
}

// crowd has a user hold connections until leave is called.
func (w *world) crowd(to string) (leave func() error, err error) {
	cmd := w.inNode(context.Background(), "nobody", "perl", "-e", strings.Replace(silent, "TO", to, 1), strconv.Itoa(silentConnections))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	leave = func() error {
		err := cmd.Process.Signal(unix.SIGKILL)
		_ = cmd.Wait() // SIGKILL has ended it
		return err
	}
	held := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n') // nothing is no "held"
		held <- line
	}()
	select {
	case line := <-held:
		if strings.TrimSpace(line) == "held" {
			return leave, nil
		}
		err = fmt.Errorf("the crowd says %q", line)
	case <-time.After(time.Minute):
		err = errors.New("the crowd has no connections")
	}
	return nil, errors.Join(err, leave())
}

// squeueAs fails where a user waits for long.
func (w *world) squeueAs(user string) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	began := time.Now()
	out, err := w.inNode(ctx, user, "squeue", "--noheader").CombinedOutput()
	fmt.Printf("squeue of %s: %v\n", user, time.Since(began))
	if err != nil {
		return fmt.Errorf("squeue of %s, after %v: %w: %s", user, time.Since(began), err, out)
	}
	return nil
}
