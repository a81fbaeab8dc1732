package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// scontrol knows the few commands that the agent gives.
func scontrol(args []string) {
	note("%s", strings.Join(args, " "))
	if chosen("down") {
		fail("scontrol: error: slurm_load_ctl_conf: Unable to contact slurm controller (connect failure)")
	}
	switch args[0] {
	case "ping":
		answer("pings", map[string]any{"hostname": "ctl", "responding": true, "mode": "primary"})
	case "show":
		if args[1] == "config" {
			config()
			return
		}
		show(args[2])
	case "delete":
		change(func(r *record) *record { return deleted(r, args[1]) })
	case "update":
		change(func(r *record) *record { return updated(r, args[1:]) })
	}
}

func answer(kind string, elements ...any) {
	if elements == nil {
		elements = []any{}
	}
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{kind: elements, "errors": []any{}, "warnings": []any{}}))
}

func show(node string) {
	change(func(r *record) *record {
		switch {
		case r == nil || r.Name != node:
			answer("nodes")
		case chosen("busy"):
			working := *r
			working.State = append([]string{"ALLOCATED"}, r.State[1:]...)
			answer("nodes", working)
		default:
			answer("nodes", r)
		}
		return r
	})
}

// config is what was put there.
func config() {
	text, err := os.ReadFile(filepath.Join(stage, "config"))
	if err != nil {
		fail("slurm_load_ctl_conf error: Zero Bytes were transmitted or received")
	}
	_, err = os.Stdout.Write(text)
	must(err)
}

func deleted(r *record, what string) *record {
	switch {
	case r == nil || what != "nodename="+r.Name:
		fail("slurm_delete_node error: Invalid node name specified")
	case chosen("busy"):
		fail("slurm_delete_node error: Requested nodes are busy")
	}
	return nil
}

func updated(r *record, settings []string) *record {
	if r == nil {
		fail("slurm_update error: Invalid node name specified")
	}
	for _, setting := range settings {
		switch key, value, _ := strings.Cut(setting, "="); {
		case key == "reason":
			r.Reason = value
		case setting == "state=drain":
			r.State = append(r.State, "DRAIN")
		case setting == "state=resume":
			r.State = slices.DeleteFunc(r.State, func(s string) bool { return s == "DRAIN" })
			r.Reason = ""
		}
	}
	return r
}
