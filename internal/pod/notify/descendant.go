package notify

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
)

// Descendant says whether pid is root or one of its descendants, by /proc. A process that was reaped has no parents any more;
// a zombie still has one.
func Descendant(pid, root int) bool { return descendant(os.DirFS("/proc"), pid, root) }

// attempts bounds how often a line of parents is followed that changes meanwhile: when a parent ends, its children move up.
const attempts = 100

func descendant(proc fs.FS, pid, root int) bool {
	for range attempts {
		found, err := climb(proc, pid, root)
		if err == nil || !exists(proc, pid) {
			return found
		}
	}
	return false
}

// climb returns an error when a process on the way is gone.
func climb(proc fs.FS, pid, root int) (bool, error) {
	for pid > 0 && pid != root {
		parent, err := parentOf(proc, pid)
		if err != nil {
			return false, err
		}
		pid = parent
	}
	return pid > 0, nil
}

func exists(proc fs.FS, pid int) bool {
	_, err := fs.Stat(proc, strconv.Itoa(pid))
	return err == nil
}

// parentOf reads the fourth field of /proc/<pid>/stat (proc_pid_stat(5)); the second, the name, may hold spaces and brackets.
func parentOf(proc fs.FS, pid int) (int, error) {
	stat, err := fs.ReadFile(proc, strconv.Itoa(pid)+"/stat")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, errors.New("cannot read a process's stat: too short")
	}
	return strconv.Atoi(string(fields[1]))
}

// Children are the processes whose parent pid is, by /proc; zombies among them.
func Children(pid int) []int { return children(os.DirFS("/proc"), pid) }

func children(proc fs.FS, pid int) []int {
	var all []int
	eachParent(proc, func(child, parent int) {
		if parent == pid {
			all = append(all, child)
		}
	})
	return all
}

// Parents are the processes that have a child, by /proc.
func Parents() map[int]bool { return parents(os.DirFS("/proc")) }

func parents(proc fs.FS) map[int]bool {
	all := map[int]bool{}
	eachParent(proc, func(_, parent int) { all[parent] = true })
	return all
}

func eachParent(proc fs.FS, do func(child, parent int)) {
	entries, _ := fs.ReadDir(proc, ".") // without /proc there are none to be found
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, err := parentOf(proc, child); err == nil {
			do(child, parent)
		}
	}
}
