package agent

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const prefix = "SLURMLET_"

// tabledSlurmctld is the name under which the agent puts the slurmctld of the peers' table into
// /etc/hosts where SLURMLET_SLURMCTLD gives none.
const tabledSlurmctld = "slurmctld:6817"

// renamed has the names of variables that have others now.
var renamed = map[string]string{"SLURMLET_CONTROLLER": "SLURMLET_SLURMCTLD"}

// fromService says whether the kubelet made a variable from a Service whose
// name begins with "slurmlet" (enableServiceLinks in a pod's spec).
func fromService(name string) bool { return serviceVariable().MatchString(name) }

// serviceVariable is compiled when it is needed, which is hardly ever.
var serviceVariable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
})

// FromEnv reads the configuration of role from an environment ("NAME=value").
// The error holds every fault that was found.
func FromEnv(role Role, environ []string) (Config, error) {
	given, faults := ours(environ)
	c := Config{Role: role}
	for _, v := range variables {
		value, set := given[v.name]
		delete(given, v.name)
		if !set || value == "" {
			value = v.fallback
		}
		if err := v.parse(&c, value); err != nil && v.meant(role) {
			faults = append(faults, fmt.Errorf("%s: cannot use %q: %w", v.name, value, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if now := renamed[name]; now != "" {
			faults = append(faults, fmt.Errorf("%s: this variable is called %s now", name, now))
			continue
		}
		faults = append(faults, fmt.Errorf("%s: no such variable; there are %s", name, variableNames()))
	}
	if c.Slurmctld == "" && c.Peers != "" {
		c.Slurmctld = tabledSlurmctld
	}
	return c, errors.Join(append(faults, c.Validate())...)
}

// ours picks the SLURMLET_* variables out of an environment.
func ours(environ []string) (map[string]string, []error) {
	given := map[string]string{}
	var faults []error
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, prefix) || !known(name) && fromService(name) {
			continue
		}
		if _, twice := given[name]; twice {
			faults = append(faults, fmt.Errorf("%s: set twice", name))
		}
		given[name] = value
	}
	return given, faults
}

func known(name string) bool {
	return slices.ContainsFunc(variables, func(v variable) bool { return v.name == name })
}

func variableNames() string {
	var all []string
	for _, v := range variables {
		all = append(all, v.name)
	}
	return strings.Join(all, ", ")
}
