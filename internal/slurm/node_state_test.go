package slurm

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestNodeStates: what states say of a node, as scontrol writes them.
func TestNodeStates(t *testing.T) {
	says := []struct {
		what string
		is   func(NodeState) bool
	}{
		{"works", NodeState.RunsJobs},
		{"holds jobs", NodeState.HoldsJobs},
		{"responds", NodeState.Responds},
		{"closed", NodeState.Closed},
		{"off", NodeState.Off},
		{"starting", NodeState.Starting},
		{"powered", NodeState.InPowerSaving},
		{"reserved", NodeState.Reserved},
		{"reboots", NodeState.Reboots},
		{"up", NodeState.Up},
	}
	for text, want := range map[string][]string{
		"IDLE":                            {"responds", "up"},
		"ALLOCATED":                       {"works", "holds jobs", "responds", "up"},
		"MIXED+DRAIN+DYNAMIC_NORM":        {"works", "holds jobs", "responds", "closed", "up"},
		"IDLE+COMPLETING+FAIL":            {"holds jobs", "responds", "closed", "up"},
		"IDLE+NOT_RESPONDING":             {},
		"DOWN":                            {"closed"},
		"ERROR":                           {"closed"},
		"UNKNOWN":                         {},
		"FUTURE":                          {},
		"IDLE+CLOUD+POWER_UP":             {"responds", "starting", "powered"},
		"ALLOCATED+CLOUD+POWERING_UP":     {"works", "holds jobs", "responds", "starting", "powered"},
		"IDLE+CLOUD+POWER_DOWN":           {"responds", "powered", "up"},
		"IDLE+CLOUD+POWERING_DOWN":        {"responds", "off", "powered"},
		"idle+cloud+powered_down":         {"responds", "off", "powered"},
		"IDLE+RESERVED+PLANNED":           {"responds", "reserved", "up"},
		"IDLE+MAINTENANCE":                {"responds", "reserved", "up"},
		"IDLE+REBOOT_ISSUED":              {"responds", "reboots", "up"},
		"MIXED+REBOOT_REQUESTED+TOMORROW": {"works", "holds jobs", "responds", "reboots", "up"},
		"TOMORROW":                        {"responds"},
		"INVALID_REG+IDLE":                {"responds", "up"},
	} {
		state, have := ParseState(text), []string{}
		for _, one := range says {
			if one.is(state) {
				have = append(have, one.what)
			}
		}
		assert.Equal(t, want, have, text)
	}
}

// TestParseState: the base state is the first, and flags keep their order.
func TestParseState(t *testing.T) {
	for text, want := range map[string]struct {
		base  string
		flags []string
	}{
		"IDLE":                  {"IDLE", []string{}},
		"DRAIN+DOWN+CLOUD":      {"DOWN", []string{"DRAIN", "CLOUD"}},
		" mixed+drain ":         {"MIXED", []string{"DRAIN"}},
		"DRAIN+CLOUD+ALLOCATED": {"ALLOCATED", []string{"DRAIN", "CLOUD"}},
		"TOMORROW+DRAIN":        {"", []string{"TOMORROW", "DRAIN"}},
	} {
		state := ParseState(text)
		assert.Equal(t, want.base, state.Base(), text)
		assert.Equal(t, want.flags, slices.Clone(state.Flags()), text)
	}
	assert.Equal(t, []string{"DRAIN"}, NodeState{"DRAIN", "IDLE"}.Flags(), "Slurm's JSON may have another order")
}
