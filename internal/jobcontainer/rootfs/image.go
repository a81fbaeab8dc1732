package rootfs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
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
		_, is := os.LookupEnv(name)
		seen[name] = is // a variable that the job lacks is the image's
	}
	for _, entry := range slices.Backward(image) { // the last one wins
		name, _, _ := strings.Cut(entry, "=")
		if name == "HOME" || name == "PWD" || strings.HasPrefix(name, "SLURM_") || strings.HasPrefix(name, "PMI") {
			continue
		}
		add(name, entry)
	}
	for _, entry := range s.derived(image) {
		name, _, _ := strings.Cut(entry, "=")
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
	for i, c := range []byte(name) {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// workdirOf finds the working directory of an image in /etc/rc, as enroot writes it: a line that begins with
// cd "DIRECTORY".
func workdirOf(rc string) string {
	for line := range strings.Lines(rc) {
		rest, is := strings.CutPrefix(line, "cd ")
		if !is || rest == "" || rest[0] != '"' && rest[0] != '\'' {
			continue
		}
		if end := strings.IndexAny(rest[1:], "\"'\n"); end > 0 && rest[1+end] != '\n' {
			return rest[1 : 1+end]
		}
	}
	return ""
}

// workdir returns the directory in which tasks start.
func (s Spec) workdir(in inside) string {
	if s.Workdir != "" {
		return s.Workdir
	}
	return cmp.Or(workdirOf(in.read("etc/rc")), "/")
}

// entrypointEnvironment is the image's, as pyxis has it: of the job's variables it has what names the user, the terminal
// and the step, and those that the user names.
func (s Spec) entrypointEnvironment(image []string) []string {
	all := slices.Clone(image)
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		kept := slices.ContainsFunc([]string{"SLURM", "PMI"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		if kept || slices.Contains([]string{"HOME", "USER", "LOGNAME", "TERM"}, name) || slices.Contains(s.Env, name) {
			all = append(all, entry)
		}
	}
	return append(all, s.derived(image)...)
}

// derived are variables that an image's libraries look for, as enroot's hooks for PMIx and PyTorch make them of Slurm's.
// A variable that the job has, stays.
func (s Spec) derived(image []string) []string {
	var all []string
	add := func(name, value string) {
		if _, is := os.LookupEnv(name); !is && value != "" {
			all = append(all, name+"="+value)
		}
	}
	add("PMIX_MCA_ptl", os.Getenv("PMIX_PTL_MODULE"))
	add("PMIX_MCA_psec", os.Getenv("PMIX_SECURITY_MODE"))
	add("PMIX_MCA_gds", os.Getenv("PMIX_GDS_MODULE"))
	nodes, err := hostlist.Parse(os.Getenv("SLURM_STEP_NODELIST"))
	first, is := nodes.Nth(0)
	torch := slices.ContainsFunc(image, func(entry string) bool { return strings.HasPrefix(entry, "PYTORCH_VERSION=") })
	if !torch || err != nil || !is { // a batch script's steps have their own
		return all
	}
	add("MASTER_ADDR", first)
	if job, err := strconv.Atoi(os.Getenv("SLURM_JOB_ID")); err == nil {
		add("MASTER_PORT", strconv.Itoa(61000+job%4536))
	}
	add("WORLD_SIZE", os.Getenv("SLURM_STEP_NUM_TASKS"))
	return all
}

// runEntrypoint runs the image's /etc/rc in the container, which is at "/" of the mount namespace already, and returns
// the environment that it leaves to the command it is given.
func (s Spec) runEntrypoint(image []string) ([]string, error) {
	runtime.LockOSThread() // never unlocked: this thread has another root, and ends with its goroutine
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return nil, fmt.Errorf("cannot run the entrypoint: %w", err)
	}
	// the container's namespaces are the main thread's
	var err error
	for _, kind := range append([]string{"mnt"}, s.Unshare...) {
		var ns int
		if err == nil {
			ns, err = unix.Open("/proc/self/ns/"+kind, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		if err == nil {
			err = errors.Join(unix.Setns(ns, 0), unix.Close(ns))
		}
	}
	if err == nil {
		err = s.lowerCapabilities()
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
	cmd.Env = s.entrypointEnvironment(image)
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
