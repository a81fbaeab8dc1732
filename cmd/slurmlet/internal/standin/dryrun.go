package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// dryRun is slurmctld in the foreground: it leaves its configuration for the test, tries to connect to itself, and serves its port,
// unless something is wrong.
func dryRun() {
	text, err := os.ReadFile(option("-f"))
	must(err)
	must(os.WriteFile(filepath.Join(stage, "dryrun.conf"), text, 0o644))
	first, _, _ := strings.Cut(string(text), "\n")
	note("tries %s uid=%d %s", first, os.Getuid(), strings.Join(os.Args[1:3], " "))
	say("error: Could not open node state file %s/node_state: No such file or directory", setting(string(text), "StateSaveLocation"))
	say("version 26.05.5 is in a dry run")
	refuse(string(text))
	if chosen("killed") {
		must(unix.Kill(os.Getpid(), unix.SIGKILL))
	}
	l, err := net.Listen("tcp", ":"+setting(string(text), "SlurmctldPort"))
	must(err)
	_, err = net.Dial("tcp", l.Addr().String())
	note("connects to itself: %v", err)
	for {
		conn, err := l.Accept()
		must(err)
		must(conn.Close())
	}
}

// setting is the value of a key that stands on a line of its own.
func setting(conf, key string) string {
	_, rest, _ := strings.Cut(conf, "\n"+key+"=")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}
