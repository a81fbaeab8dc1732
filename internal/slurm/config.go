package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config is the cluster's configuration as slurmctld works with it: slurm.conf's
// and cgroup.conf's parameters and their values, defaults filled in. What is
// not set is the empty text.
type Config map[string]string

// ParseConfig reads what "scontrol show config" prints: lines "Key = value",
// and sections between empty lines with a title each. cgroup.conf's section is
// taken in; those of plugins have keys of their own.
func ParseConfig(text string) Config {
	c := Config{}
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(line, "=")
		key = strings.TrimSpace(key)
		if !found || key == "" {
			continue
		}
		if value = strings.TrimSpace(value); value == "(null)" || value == "(null type)" {
			value = ""
		}
		c[key] = value
	}
	return c
}

// Seconds reads a parameter that is shown in seconds ("10 sec").
func (c Config) Seconds(key string) (time.Duration, error) {
	number, unit, _ := strings.Cut(c[key], " ")
	seconds, err := strconv.Atoi(number)
	if err != nil || unit != "sec" {
		return 0, fmt.Errorf("cannot read the answer of scontrol show config: want seconds, not %s=%q", key, c[key])
	}
	return time.Duration(seconds) * time.Second, nil
}

// Is says whether a parameter has the value; capitals do not matter.
func (c Config) Is(key, value string) bool { return strings.EqualFold(c[key], value) }

// Names says whether a key has a value: scontrol prints (null) for none.
func (c Config) Names(key string) bool { return c[key] != "" && c[key] != "(null)" }

// Has says whether a parameter, a list separated by commas, holds the value.
func (c Config) Has(key, value string) bool {
	return slices.ContainsFunc(strings.Split(c[key], ","), func(one string) bool {
		return strings.EqualFold(strings.TrimSpace(one), value)
	})
}
