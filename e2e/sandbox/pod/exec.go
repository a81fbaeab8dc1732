package pod

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Exec says how to run a command in a pod.
type Exec struct {
	// User is a name that the pod's /etc/passwd knows, or a number. Empty: root.
	User string `json:"user,omitempty"`
	// Dir is the working directory. Empty: the user's home, or / where there is none.
	Dir string   `json:"dir,omitempty"`
	Env []string `json:"env,omitempty"`
	TTY bool     `json:"tty,omitempty"`
}

// Command runs args in the pod's container. It dies with the container and with ctx.
func (k *Kubelet) Command(ctx context.Context, name string, how Exec, args []string) (*exec.Cmd, error) {
	p, err := k.pod(name)
	if err != nil {
		return nil, err
	}
	c, err := p.started()
	if err != nil {
		return nil, err
	}
	if c.ended() {
		return nil, fmt.Errorf("cannot exec in pod %s: its container ended: %s", name, describe(c.status))
	}
	who, err := lookup(c.root(), how.User)
	if err != nil {
		return nil, fmt.Errorf("cannot exec in pod %s: %v", name, err)
	}
	pidFile := filepath.Join(c.dir, fmt.Sprintf("exec-%d", k.execs.Add(1)))
	cmd := exec.CommandContext(ctx, "runc", execArgs(c.id, pidFile, how, who, args)...)
	cmd.Cancel = func() error { return killFrom(pidFile) }
	return cmd, nil
}

// killFrom kills the process inside the container: runc, when killed, leaves it.
func killFrom(pidFile string) error {
	data, err := os.ReadFile(pidFile)
	if err != nil {
		return fmt.Errorf("cannot kill command: %v", err)
	}
	pid, err := strconv.Atoi(string(data))
	if err != nil {
		return fmt.Errorf("cannot kill command: %v", err)
	}
	return unix.Kill(pid, unix.SIGKILL)
}

func execArgs(id, pidFile string, how Exec, who user, args []string) []string {
	dir := how.Dir
	if dir == "" {
		dir = who.home
	}
	out := []string{"exec", "--pid-file", pidFile, "--cwd", dir, "--user", fmt.Sprintf("%d:%d", who.uid, who.gid), "--env", "HOME=" + who.home, "--env", "USER=" + who.name}
	for _, gid := range who.groups {
		out = append(out, "--additional-gids", strconv.Itoa(gid))
	}
	for _, e := range how.Env {
		out = append(out, "--env", e)
	}
	if how.TTY {
		out = append(out, "--tty")
	}
	return append(append(out, id), args...)
}

type user struct {
	name     string
	uid, gid int
	home     string
	groups   []int
}

// lookup finds a user in the container's own files: runc takes numbers only.
func lookup(root, name string) (user, error) {
	if name == "" {
		return user{name: "root", home: "/root"}, nil
	}
	tree, err := os.OpenRoot(root)
	if err != nil {
		return user{}, fmt.Errorf("cannot look up user %s: %v", name, err)
	}
	defer tree.Close()
	passwd, err1 := tree.ReadFile("etc/passwd")
	group, err2 := tree.ReadFile("etc/group")
	if err := errors.Join(err1, err2); err != nil {
		return user{}, fmt.Errorf("cannot look up user %s: %v", name, err)
	}
	who, err := findUser(passwd, group, name)
	if _, missing := tree.Stat(strings.TrimPrefix(who.home, "/")); missing != nil {
		who.home = "/"
	}
	return who, err
}

func findUser(passwd, group []byte, name string) (user, error) {
	for f := range records(passwd, 7) {
		if f[0] != name && f[2] != name {
			continue
		}
		uid, err1 := strconv.Atoi(f[2])
		gid, err2 := strconv.Atoi(f[3])
		if err1 != nil || err2 != nil {
			return user{}, fmt.Errorf("bad line for user %s in /etc/passwd", name)
		}
		return user{name: f[0], uid: uid, gid: gid, home: f[5], groups: groupsOf(group, f[0])}, nil
	}
	return user{}, fmt.Errorf("no user %s in the pod's /etc/passwd", name)
}

func groupsOf(group []byte, name string) []int {
	var out []int
	for f := range records(group, 4) {
		for member := range strings.SplitSeq(f[3], ",") {
			if gid, err := strconv.Atoi(f[2]); err == nil && member == name {
				out = append(out, gid)
			}
		}
	}
	return out
}

func records(data []byte, fields int) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
			if f := strings.Split(lines.Text(), ":"); len(f) == fields && !yield(f) {
				return
			}
		}
	}
}
