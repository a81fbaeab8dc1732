package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// slurm is a version of it in a root file system of its own.
type slurm struct {
	Version, Lower string
	root           string
}

func (s *slurm) prepare() error {
	s.root = filepath.Join(native.Scratch, s.Version)
	if err := native.Layer(s.root, s.Lower); err != nil {
		return err
	}
	key := make([]byte, 1024)
	_, _ = rand.Read(key) // it never fails
	hosts := "127.0.0.1 localhost\n" + native.Address + " " + native.Host + "\n"
	return errors.Join(
		os.WriteFile(filepath.Join(s.root, "etc/hosts"), []byte(hosts), 0o644),
		os.WriteFile(filepath.Join(s.root, "etc/nsswitch.conf"), []byte("passwd: files\ngroup: files\nhosts: files\n"), 0o644), // no DNS to wait for
		os.WriteFile(filepath.Join(s.root, "slurm.key"), key, 0o600),
		os.WriteFile(filepath.Join(s.root, "seccomp"), sleepless(), 0o600),
		os.Mkdir(filepath.Join(s.root, "asked"), 0o755),
	)
}

// sleepless is a seccomp filter under which every sleep is over at once. Slurm sleeps
// 25 s for each name that it cannot resolve, and takes the configuration then.
func sleepless() []byte {
	var text bytes.Buffer
	_ = binary.Write(&text, binary.NativeEndian, []unix.SockFilter{ // it never fails
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the first field of struct seccomp_data: the system call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLOCK_NANOSLEEP, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO}, // of 0: it has slept
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	})
	return text.Bytes()
}

// furnish makes the machine of one daemon: its configuration, no state, a network.
// Where we are on a machine of two processors, so is slurmd.
const furnish = `set -e
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var/spool
mount --bind "/asked/$0" /etc/slurm
cp /slurm.key /etc/slurm
ip -batch - <<.
link add eth0 type veth peer name eth1
addr add ` + native.Address + `/24 dev eth0
link set lo up
link set eth0 up
link set eth1 up
.
exec setpriv --seccomp-filter /seccomp "$@"`

// commands are what reads a configuration. One that neither serves nor waits ends.
var commands = map[string]struct {
	args   []string
	serves bool
	waits  string // what it says when it waits for another daemon, which is not there
}{
	"slurmctld": {[]string{"slurmctld", "-D"}, true, "Retrying initial connection to slurmdbd"},
	"slurmdbd":  {[]string{"slurmdbd", "-D"}, false, "mysql_real_connect failed"},
	"slurmd":    {[]string{"slurmd", "-G", "-N", "n1"}, false, ""},
	"slurmd -D": {[]string{"slurmd", "-D", "-N", "n1"}, false, "slurmd started on"},
}

// limit is long for a machine that is busy with other things.
const limit = 30 * time.Second

// ask has a daemon read files, and returns whether it refuses them and what it says. It
// may say these words a moment after it serves.
func (s *slurm) ask(daemon string, files map[string]string, words ...string) (refused bool, log string, err error) {
	dir, err := os.MkdirTemp(filepath.Join(s.root, "asked"), "")
	if err != nil {
		return false, "", fmt.Errorf("cannot write a configuration: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := write(dir, files); err != nil {
		return false, "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	command := commands[daemon]
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", furnish, filepath.Base(dir)}, command.args...)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: s.root, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL,
	}
	said, in, err := os.Pipe()
	if err != nil {
		return false, "", fmt.Errorf("cannot hear %s: %w", daemon, err)
	}
	defer said.Close()
	cmd.Stdout, cmd.Stderr = in, in
	err = cmd.Start()
	in.Close()
	if err != nil {
		return false, "", fmt.Errorf("cannot start %s: %w", daemon, err)
	}
	log, runs := hear(ctx, cmd.Process.Pid, said, command.serves, command.waits, words)
	late := ctx.Err() != nil
	if command.serves || runs || late {
		cancel()
	}
	err = cmd.Wait()
	switch {
	case late:
		return false, log, fmt.Errorf("%s %s neither refuses nor takes it within %v:\n%.1000s", daemon, s.Version, limit, log)
	case !command.serves && command.waits == "":
		return err != nil || strings.Contains(log, "fatal: "), log, nil
	default:
		return !runs, log, nil
	}
}

func write(dir string, files map[string]string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("cannot write a configuration: %w", err)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		mode := os.FileMode(0o644)
		if filepath.Base(name) == "slurmdbd.conf" {
			mode = 0o600
		}
		isDir := strings.HasSuffix(name, "/")
		if isDir {
			path += "/"
		}
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil && !isDir {
			err = os.WriteFile(path, []byte(text), mode)
		}
		if err != nil {
			return fmt.Errorf("cannot write a configuration: %w", err)
		}
	}
	return nil
}

// hear reads what a daemon says until it ends, serves, or waits.
func hear(ctx context.Context, pid int, said io.Reader, itServes bool, waits string, words []string) (log string, runs bool) {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(said); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	serving := make(chan struct{})
	if itServes {
		go serves(ctx, pid, serving)
	}
	var text strings.Builder
	fatal, served := false, false
	patience := make(<-chan time.Time)
	for {
		if served && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text.String(), w) }) {
			go drain(lines)
			return text.String(), true
		}
		select {
		case line, ok := <-lines:
			if !ok {
				return text.String(), false
			}
			text.WriteString(line + "\n")
			fatal = fatal || strings.Contains(line, "fatal: ")
			if waits != "" && strings.Contains(line, waits) && !fatal {
				go drain(lines)
				return text.String(), true
			}
		case <-serving:
			served, serving, patience = !fatal, nil, time.After(10*time.Second)
		case <-patience:
			words = nil
		case <-ctx.Done():
			return text.String(), false
		}
	}
}

// drain: who still says something shall not wait for us.
func drain(lines <-chan string) {
	for range lines {
	}
}

// serves closes a channel when the daemon takes a connection, and closes it: it
// listens early, and serves when all else is done.
func serves(ctx context.Context, pid int, serving chan<- struct{}) {
	runtime.LockOSThread() // The thread ends with us: its network is another one.
	ns, err := netns.GetFromPid(pid)
	if err != nil || netns.Set(ns) != nil {
		return
	}
	defer ns.Close()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		if port, ok := listening(pid); ok && takes(ctx, net.JoinHostPort(native.Address, strconv.Itoa(port))) {
			close(serving)
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

func takes(ctx context.Context, address string) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
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

// listening is a port on which somebody in the network of a process listens.
func listening(pid int) (int, bool) {
	for _, table := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table)) // it may have ended
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 4 || fields[3] != "0A" {
				continue
			}
			_, port, _ := strings.Cut(fields[1], ":")
			if n, err := strconv.ParseUint(port, 16, 16); err == nil {
				return int(n), true
			}
		}
	}
	return 0, false
}
