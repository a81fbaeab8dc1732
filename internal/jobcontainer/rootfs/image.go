package rootfs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// environment is what the tasks' environment takes from the image, as NAME=value, and names alone that it loses.
// The image's value wins over the job's, except for Slurm's own variables and those that the user names.
func (s Spec) environment(image []string) []string {
	var all []string
	seen := map[string]bool{}
	add := func(name, entry string) {
		if !seen[name] {
			seen[name] = true
			all = append(all, entry)
		}
	}
	for _, name := range s.Env {
		seen[name] = true
	}
	for _, entry := range slices.Backward(image) { // the last one wins
		name, _, _ := strings.Cut(entry, "=")
		if name == "HOME" || name == "PWD" || strings.HasPrefix(name, "SLURM_") || strings.HasPrefix(name, "PMI") {
			continue
		}
		add(name, entry)
	}
	for _, name := range []string{"LANG", "LANGUAGE", "LC_ALL"} {
		add(name, name)
	}
	if s.RemapRoot {
		add("HOME", "HOME=/root")
	}
	slices.Sort(all)
	return all
}

// readEnvironment reads /etc/environment: NAME=value, where enroot writes the variables of an image. Quotes around a
// value, which distributions write there, are no part of it.
func readEnvironment(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, value, found := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if !found || !isName(name) || strings.ContainsRune(value, 0) {
			continue
		}
		for _, quote := range []string{`"`, `'`} {
			if len(value) >= 2 && strings.HasPrefix(value, quote) && strings.HasSuffix(value, quote) {
				value = value[1 : len(value)-1]
				break
			}
		}
		all = append(all, name+"="+value)
	}
	return all
}

func isName(name string) bool {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name)
}

// workdirOf finds the working directory of an image in /etc/rc, as enroot writes it: a line that begins with
// cd "DIRECTORY".
var workdirOf = regexp.MustCompile(`(?m)^cd ["']([^"'\n]+)["']`)

// workdir returns the directory in which tasks start.
func (s Spec) workdir(in inside) string {
	if s.Workdir != "" {
		return s.Workdir
	}
	if found := workdirOf.FindStringSubmatch(in.read("etc/rc")); found != nil {
		return found[1]
	}
	return "/"
}

// runEntrypoint runs the image's /etc/rc in the container, which is at "/" of the mount namespace already, and returns
// the environment that it leaves to the command it is given.
func (s Spec) runEntrypoint(image []string) ([]string, error) {
	runtime.LockOSThread() // never unlocked: this thread has another root, and ends with its goroutine
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return nil, fmt.Errorf("cannot run the entrypoint: %w", err)
	}
	ns, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Setns(ns, unix.CLONE_NEWNS)
	}
	if err == nil {
		err = unix.Chdir("/")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot run the entrypoint in the container: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot run the entrypoint: %w", err)
	}
	defer read.Close()
	cmd := exec.Command("/bin/sh", "/etc/rc", "/bin/sh", "-c", "exec cat /proc/self/environ >&3")
	cmd.Env = os.Environ()
	for _, entry := range image {
		if name, _, _ := strings.Cut(entry, "="); !slices.Contains(s.Env, name) {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	if s.EntrypointLog {
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	}
	cmd.ExtraFiles = []*os.File{write}
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		return nil, fmt.Errorf("cannot run the entrypoint: %w", err)
	}
	var text bytes.Buffer
	_, err = text.ReadFrom(read)
	if ended := cmd.Wait(); ended != nil || err != nil {
		return nil, fmt.Errorf("the entrypoint failed (--container-entrypoint-log shows what it prints): %w", ended)
	}
	return strings.FieldsFunc(text.String(), func(r rune) bool { return r == 0 }), nil
}
