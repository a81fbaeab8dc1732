package sshd

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Session is somebody's connection. Its process is sshd's monitor of it, which
// belongs to root: what it is called, no user can choose.
type Session struct {
	User string
	PID  int
}

// process is what is needed of one in /proc (proc_pid_stat(5)).
type process struct {
	pid, parent int
	command     string
	// terminal is the number of its /dev/pts/N, -1 for none.
	terminal int
}

// Sessions lists those that are there, by pid, from /proc below root.
func Sessions(root string) ([]Session, error) {
	return monitors(root, func(all []process, pid int, rest string) bool {
		return isRoots(rest) || served(root, all, pid)
	})
}

// Pending lists also those who have not been let in yet.
func Pending(root string) ([]Session, error) {
	return monitors(root, func([]process, int, string) bool { return true })
}

func monitors(root string, wanted func(all []process, pid int, rest string) bool) ([]Session, error) {
	all, err := processes(root)
	if err != nil {
		return nil, err
	}
	var sessions []Session
	for _, p := range all {
		if !isSSHD(p.command) || uid(root, p.pid) != 0 {
			continue
		}
		if user, rest := title(root, p.pid); user != "" && wanted(all, p.pid, rest) {
			sessions = append(sessions, Session{user, p.pid})
		}
	}
	return sessions, nil
}

// served: the user has been let in, and has a process of sshd's.
func served(root string, all []process, monitor int) bool { return userOf(root, all, monitor) > 0 }

// UID is the user of a session, by the pid of its monitor; -1 when it has ended, and while nobody has been let in.
func UID(root string, monitor int) int {
	if _, rest := title(root, monitor); isRoots(rest) {
		return uid(root, monitor) // root has no monitor
	}
	all, err := processes(root)
	if err != nil {
		return -1
	}
	return userOf(root, all, monitor)
}

// isRoots: root's title ends with a terminal, or "notty". A monitor's ends with "[priv]", with "[postauth]" since OpenSSH
// 10.6, and for a moment with a part of these, because sshd writes it byte by byte.
func isRoots(rest string) bool { return rest != "" && !strings.HasPrefix(rest, "[") }

// userOf is the uid of sshd's process for the user, -1 for none.
func userOf(root string, all []process, monitor int) int {
	for _, p := range all {
		if p.parent == monitor && isSSHD(p.command) && !preAuth(root, p.pid) {
			if id := uid(root, p.pid); id > 0 {
				return id
			}
		}
	}
	return -1
}

// preAuth: "[net]" is the part that speaks to whoever has not been let in.
func preAuth(root string, pid int) bool {
	_, rest := title(root, pid)
	return rest == "[net]"
}

// isSSHD: a session is a program of its own since OpenSSH 9.8.
func isSSHD(command string) bool { return command == "sshd-session" || command == "sshd" }

// title is what a process of sshd's calls itself: "sshd-session: alice [priv]",
// and for root, who has no monitor, "sshd-session: root@pts/0".
func title(root string, pid int) (user, rest string) {
	text, err := os.ReadFile(filepath.Join(root, "proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return "", ""
	}
	said := strings.TrimRight(string(text), "\x00 ")
	_, said, found := strings.Cut(said, ": ")
	if !found {
		return "", ""
	}
	name, part, found := strings.Cut(said, " [")
	if found {
		part = "[" + part
	} else {
		name, part, found = strings.Cut(said, "@")
	}
	if !found || strings.ContainsAny(name, "/ ") {
		return "", "" // it listens
	}
	return name, part
}

// Terminals are the paths of those that a session's processes run on.
func Terminals(root string, s Session) ([]string, error) {
	all, err := processes(root)
	if err != nil {
		return nil, err
	}
	ours := map[int]bool{s.PID: true}
	var found []string
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if ours[p.pid] || !ours[p.parent] {
				continue
			}
			ours[p.pid], grown = true, true
			if p.terminal >= 0 {
				found = append(found, "/dev/pts/"+strconv.Itoa(p.terminal))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// processes are all that there are, the smallest pid first.
func processes(root string) ([]process, error) {
	entries, err := os.ReadDir(filepath.Join(root, "proc"))
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, "proc", e.Name(), "stat"))
		if err != nil {
			continue // it has just ended
		}
		if p, ok := parseStat(pid, text); ok {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b process) int { return cmp.Compare(a.pid, b.pid) })
	return all, nil
}

// ptyMajor is the major number of all of /dev/pts (Documentation/admin-guide/devices.txt).
const ptyMajor = 136

// parseStat reads "pid (command) state ppid pgrp session tty_nr …"; the command
// may hold anything.
func parseStat(pid int, text []byte) (process, bool) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return process{}, false
	}
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) < 5 {
		return process{}, false
	}
	parent, err1 := strconv.Atoi(fields[1])
	number, err2 := strconv.Atoi(fields[4])
	if err1 != nil || err2 != nil {
		return process{}, false
	}
	p := process{pid: pid, parent: parent, command: string(text[open+1 : end]), terminal: -1}
	if number>>8&0xfff == ptyMajor {
		p.terminal = number>>12&0xfff00 | number&0xff
	}
	return p, true
}

// uid is a process's real user, -1 when it has ended.
func uid(root string, pid int) int {
	text, err := os.ReadFile(filepath.Join(root, "proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		if numbers, found := strings.CutPrefix(line, "Uid:"); found {
			if id, err := strconv.Atoi(strings.Fields(numbers + " -1")[0]); err == nil {
				return id
			}
		}
	}
	return -1
}
