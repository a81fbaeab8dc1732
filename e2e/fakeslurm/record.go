package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// record is a node record as "scontrol show node --json" prints it.
type record struct {
	Name          string    `json:"name"`
	State         []string  `json:"state"`
	CPUs          int       `json:"cpus"`
	EffectiveCPUs int       `json:"effective_cpus"`
	CPUSpecList   string    `json:"specialized_cpus"`
	Sockets       int       `json:"sockets"`
	Cores         int       `json:"cores"`
	Threads       int       `json:"threads"`
	RealMemory    int64     `json:"real_memory"`
	TmpDisk       int64     `json:"temporary_disk"`
	Reason        string    `json:"reason"`
	Extra         string    `json:"extra"`
	SlurmdStart   timestamp `json:"slurmd_start_time"`
}

type timestamp struct {
	Set      bool  `json:"set"`
	Infinite bool  `json:"infinite"`
	Number   int64 `json:"number"`
}

// register does what slurmctld makes of slurmd's registration: an older record wins over --conf, and slurmd does not learn of it.
func register(successor bool) {
	change(func(r *record) *record {
		switch {
		case r == nil && chosen("lost-at-start") && !successor:
			return nil
		case r == nil:
			r = fromConf()
		}
		if r.is("POWERING_DOWN") {
			return r // slurmctld waits for SuspendTimeout
		}
		r.State = slices.DeleteFunc(r.State, func(s string) bool { return s == "POWERING_UP" || s == "NOT_RESPONDING" })
		r.SlurmdStart = timestamp{Set: true, Number: began.Unix()}
		if i := slices.Index(os.Args, "--extra"); i > 0 && (r.Extra == "" || !chosen("keeps-extra")) {
			r.Extra = os.Args[i+1]
		}
		return r
	})
}

func fromConf() *record {
	r := record{Name: option("-N"), State: []string{"IDLE", "DYNAMIC_NORM"}}
	_, err := fmt.Sscanf(option("--conf"), "CPUs=%d RealMemory=%d TmpDisk=%d", &r.CPUs, &r.RealMemory, &r.TmpDisk)
	must(err)
	r.EffectiveCPUs, r.Sockets, r.Cores, r.Threads = r.CPUs, r.CPUs, 1, 1
	return &r
}

func option(name string) string { return os.Args[slices.Index(os.Args, name)+1] }

// locked: one process at a time changes what slurmctld knows.
func locked(f func()) {
	lock, err := os.OpenFile(filepath.Join(stage, "lock"), os.O_CREATE|os.O_RDWR, 0o666)
	must(err)
	defer lock.Close()
	must(unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	f()
}

// change replaces the record by what f makes of it; nil is no record.
func change(f func(*record) *record) { locked(func() { replace(f) }) }

func replace(f func(*record) *record) {
	path := filepath.Join(stage, "node.json")
	next := f(load(path))
	if next == nil {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			must(err)
		}
		return
	}
	data, err := json.Marshal(next)
	must(err)
	must(os.WriteFile(path+".new", data, 0o644))
	must(os.Rename(path+".new", path))
}

func load(path string) *record {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must(err)
	defer f.Close()
	data, err := io.ReadAll(f)
	must(err)
	var r record
	must(json.Unmarshal(data, &r))
	return &r
}
