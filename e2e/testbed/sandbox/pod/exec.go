package pod

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"
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
	// Enter joins the container with nsenter in place of "runc exec", at a fifth of the processor's time.
	// The command gets no signals.
	Enter bool `json:"enter,omitempty"`
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
	if how.Enter {
		return c.enter(ctx, p.spec, how, who, args)
	}
	pidFile := filepath.Join(c.dir, fmt.Sprintf("exec-%d", k.execs.Add(1)))
	cmd := exec.CommandContext(ctx, "runc", execArgs(c.id, pidFile, how, who, args)...)
	cmd.Cancel = func() error { return killFrom(pidFile) }
	return cmd, nil
}

// enter runs args with the namespaces, the cgroup, the capabilities and the environment of the container.
// The command dies with nsenter, and nsenter with ctx.
func (c *container) enter(ctx context.Context, spec Spec, how Exec, who user, args []string) (*exec.Cmd, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended() {
		return nil, fmt.Errorf("cannot exec in pod %s: its container ended: %s", spec.Name, describe(c.status))
	}
	dir, err := c.initCgroup()
	if err != nil {
		return nil, fmt.Errorf("cannot exec in pod %s: %v", spec.Name, err)
	}
	cgroup, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot exec in pod %s: %w", spec.Name, err)
	}
	cmd := exec.CommandContext(ctx, "nsenter", enterArgs(c.pid, spec, how, who, args)...)
	cmd.Env = slices.Concat(environment(spec.Env), []string{"HOME=" + who.home, "USER=" + who.name}, how.Env)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd())}
	context.AfterFunc(ctx, func() { cgroup.Close() })
	return cmd, nil
}

// Moved says that a command did not begin because the cgroup that PID 1 had stood in was removed meanwhile,
// which an agent does after slurmd has moved it (cgroup.Reclaim). A cgroup that is being removed gives
// clone3(2) ENOENT (css_tryget_online_from_dir) or ENODEV (cgroup_css_set_fork).
func Moved(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) }

// initCgroup is the directory of PID 1's cgroup.
func (c *container) initCgroup() (string, error) {
	p, err := procfs.NewProc(c.pid)
	if err != nil {
		return "", err
	}
	cgroups, err := p.Cgroups()
	if err != nil {
		return "", err
	}
	for _, one := range cgroups {
		if one.HierarchyID == 0 { // version 2
			return filepath.Join(cgroupMount, one.Path), nil
		}
	}
	return "", errors.New("PID 1 is in no cgroup of version 2")
}

func enterArgs(pid int, spec Spec, how Exec, who user, args []string) []string {
	groups := []string{strconv.Itoa(who.gid)}
	for _, gid := range who.groups {
		groups = append(groups, strconv.Itoa(gid))
	}
	bounding := []string{"-all"}
	for _, name := range process(spec).Capabilities.Bounding {
		bounding = append(bounding, "+"+strings.ToLower(strings.TrimPrefix(name, "CAP_")))
	}
	spaces := []string{"--target", strconv.Itoa(pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wdns=" + cmp.Or(how.Dir, who.home)}
	if !spec.HostCgroup { // PID 1 may have left the host's for one of its own
		spaces = append(spaces, "--cgroup")
	}
	return slices.Concat(spaces, []string{
		"--", "setpriv", "--reuid", strconv.Itoa(who.uid), "--regid", strconv.Itoa(who.gid), "--groups", strings.Join(groups, ","),
		"--bounding-set", strings.Join(bounding, ","), "--inh-caps", "-all", "--pdeathsig", "KILL", "--",
	}, args)
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
