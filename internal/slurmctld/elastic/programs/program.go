package programs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Program is one that slurmctld runs, as slurm.conf names it: a link in SLURMLET_RUN_DIR/programs to
// slurmlet.
type Program string

// The programs. Resume, Suspend and ResumeFailed let the agent know that slurmctld has asked for nodes, or for
// their end. The agent then looks itself: slurmctld repeats no call.
const (
	Resume       Program = "resume"
	Suspend      Program = "suspend"
	ResumeFailed Program = "resume-failed"
	// WaitNodes ends when a job's nodes are up.
	WaitNodes Program = "wait-nodes"
)

// All lists them.
func All() []Program { return []Program{Resume, Suspend, ResumeFailed, WaitNodes} }

// dirName is in SLURMLET_RUN_DIR, and socketName in there.
const (
	dirName    = "programs"
	socketName = "agent.sock"
)

// What the agent answers on the socket.
const (
	notifyPath = "/notify"
	waitPath   = "/wait-nodes"
)

const (
	// beat is how often wait-nodes hears that the agent lives, and patience how long it believes that.
	beat, silenceLimit = 10 * time.Second, 30 * time.Second
	// notifyLimit is for the programs that slurmctld waits for.
	notifyLimit = 5 * time.Second
	// connectLimit and connectPause are for an agent that has no place for another connection.
	connectLimit, connectPause = 2 * time.Second, 100 * time.Millisecond
)

// ErrNoAgent says that no agent answers on the programs' socket.
var ErrNoAgent = errors.New("no agent answers")

// makeLinks makes the links, each at once: slurmctld may run them at any time.
func makeLinks(runDir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find slurmlet's own program: %w", err)
	}
	dir := filepath.Join(runDir, dirName)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot make the directory of slurmctld's programs: %w", err)
	}
	for _, p := range All() {
		path := filepath.Join(dir, string(p))
		next := path + ".new"
		if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot link slurmctld's program: %w", err)
		}
		if err := errors.Join(os.Symlink(self, next), os.Rename(next, path)); err != nil {
			return fmt.Errorf("cannot link slurmctld's program: %w", err)
		}
	}
	return nil
}

// Notify lets the agent know that slurmctld has run a program; dir has the program's link.
func Notify(ctx context.Context, dir string, p Program) error {
	ctx, cancel := context.WithTimeout(ctx, notifyLimit)
	defer cancel()
	conn, err := dial(ctx, dir)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent"+notifyPath+"?program="+string(p), nil)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoAgent, err)
	}
	defer response.Body.Close()
	return refusal(response)
}

// waiter reads what the agent answers, and succeeds whatever that is.
const waiter = "while read -r line; do :; done; exit 0"

// WaitForNodes ends the process when a job need not wait for its nodes any more, or when the agent is
// silent for patience. It returns only errors, before that: slurmctld itself has to look for the
// nodes then.
//
// slurmctld runs one for each job that waits. A shell takes the process over, because that has 0.2 MB of
// its own, and slurmlet 2.4 MB (smaps_rollup).
func WaitForNodes(ctx context.Context, dir, query string) error {
	limited, cancel := context.WithTimeout(ctx, notifyLimit)
	defer cancel()
	conn, err := dial(limited, dir)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST %s?%s HTTP/1.0\r\n\r\n", waitPath, query); err != nil {
		return fmt.Errorf("%w: %w", ErrNoAgent, err)
	}
	file, err := conn.File() // whose reads block
	if err != nil {
		return fmt.Errorf("cannot wait for the agent: %w", err)
	}
	defer file.Close()
	patience := unix.NsecToTimeval(int64(silenceLimit))
	err = errors.Join(unix.SetsockoptTimeval(int(file.Fd()), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience), unix.Dup2(int(file.Fd()), 0))
	if err == nil {
		err = unix.Exec("/bin/sh", []string{string(WaitNodes), "-c", waiter}, nil)
	}
	return fmt.Errorf("cannot wait for the agent: %w", err)
}

// dial tries again where the agent has no place for another connection, or starts.
func dial(ctx context.Context, dir string) (*net.UnixConn, error) {
	for began := time.Now(); ; {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", filepath.Join(dir, socketName))
		if err == nil {
			return conn.(*net.UnixConn), nil
		}
		if ctx.Err() != nil || time.Since(began) >= connectLimit {
			return nil, fmt.Errorf("%w: %w", ErrNoAgent, err)
		}
		select {
		case <-time.After(connectPause):
		case <-ctx.Done():
		}
	}
}

// refusal is what the agent says where it refuses, nil where it does not.
func refusal(response *http.Response) error {
	if response.StatusCode == http.StatusOK {
		return nil
	}
	text := make([]byte, 256)
	n, _ := response.Body.Read(text)
	return fmt.Errorf("the agent answers %s: %s", response.Status, text[:n])
}
