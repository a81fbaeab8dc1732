package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// showStates is sinfo's answer with all flags of the named nodes that have a record.
func showStates(args []string) {
	names,
		_ := strings.CutPrefix(
		args[slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--nodes=") })], "--nodes=")
	list, err := hostlist.Parse(names)
	must(err)
	for _, n := range listedNodes() {
		if list.Contains(n.name) {
			fmt.Printf("%s|%s|\n", strings.ToLower(n.state), n.name)
		}
	}
}

// jobStates prints which jobs are COMPLETING, and as CONFIGURING those of the file of that name; the others run.
func jobStates() {
	for _, j := range jobsThatAre("COMPLETING") {
		fmt.Println(j.ID, "COMPLETING")
	}
	text, err := os.ReadFile(filepath.Join(stage, "configuring"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	must(err)
	for id := range strings.FieldsSeq(string(text)) {
		fmt.Println(id, "CONFIGURING")
	}
	fmt.Println(99, "RUNNING")
}
