package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// partEnv says to a process of a hand-over which one it is.
const partEnv = "STANDIN_PART"

func daemon() {
	part := os.Getenv(partEnv)
	must(os.Unsetenv(partEnv))
	if part == "intermediate" {
		fork("successor", os.NewFile(3, "pipe"))
		stall("hang")
		if os.Remove(filepath.Join(stage, "hang-once")) == nil {
			for {
				<-time.After(time.Hour)
			}
		}
		return
	}
	signals := make(chan os.Signal, 16)
	if !chosen("young") {
		signal.Notify(signals, unix.SIGTERM, unix.SIGHUP)
	} else {
		time.AfterFunc(time.Hour, func() {}) // Go ends a program that nothing can wake
	}
	if name == "slurmd" {
		go giveCredentials()
	}
	begin(part == "successor")
	for s := range signals {
		switch {
		case s == unix.SIGHUP:
			handOver()
		case s == unix.SIGUSR1:
			say("shutdown completing")
			return
		case chosen("stubborn"):
			note("ignored SIGTERM")
		default:
			note("SIGTERM")
			if chosen("hold-stop") {
				go goOnOnce(signals)
				continue
			}
			say("shutdown completing")
			return
		}
	}
}

// goOnOnce the file is gone; meanwhile further signals are written down.
func goOnOnce(signals chan<- os.Signal) {
	stall("hold-stop")
	signals <- unix.SIGUSR1
}

func begin(successor bool) {
	note("start uid=%d", os.Getuid())
	dump()
	say("version 26.05.5 runs as %d", os.Getpid())
	say("error: this is an error of %d", os.Getpid())
	chat()
	readConf()
	if chosen("exit-at-start") {
		say("fatal: cannot read the configuration")
		os.Exit(1)
	}
	if chosen("stranger") {
		run("stranger")
	}
	if name == "slurmctld" {
		must(os.WriteFile(filepath.Join(stage, "slurmctld.pid"), []byte(strconv.Itoa(os.Getpid())), 0o644))
	}
	switch {
	case successor:
		takeOver()
	case !chosen("mute"):
		announce("READY=1\nMAINPID=%d", os.Getpid())
	}
	if name == "slurmd" {
		go func() {
			stall("late")
			register(successor)
		}()
	}
}

// readConf writes the first line, and does what slurmctld does with a plugin or a node that there is not.
func readConf() {
	if name != "slurmctld" {
		return
	}
	text, err := os.ReadFile(option("-f"))
	must(err)
	first, _, _ := strings.Cut(string(text), "\n")
	note("reads %s", first)
	stall("slow")
	refuse(string(text))
}

func refuse(conf string) {
	switch {
	case strings.Contains(conf, "job_submit/nosuch"):
		say("error: cannot find job_submit plugin for job_submit/nosuch")
		say("fatal: failed to initialize job_submit plugin")
		os.Exit(1)
	case strings.Contains(conf, "nosuch"):
		say("fatal: Invalid node names in partition x")
		os.Exit(1)
	}
}

// chat says much at once, as slurmctld on debug does.
func chat() {
	if chosen("chatty") {
		for i := range 10_000 { // more than the agent keeps
			say("debug2: line %d, which says a little about what nobody asks for", i)
		}
	}
}

// dump leaves the start's circumstances for the test.
func dump() {
	env := os.Environ()
	slices.Sort(env)
	cwd, err := os.Getwd()
	must(err)
	data, err := json.MarshalIndent(map[string]any{"args": os.Args, "env": env, "dir": cwd}, "", "  ")
	must(err)
	must(os.WriteFile(filepath.Join(stage, name+".start"), append(data, '\n'), 0o644))
}

// run runs this program in another part.
func run(part string) {
	cmd := exec.Command(filepath.Join(filepath.Dir(os.Args[0]), part))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	must(cmd.Run())
}
