package agent

import (
	"fmt"
	"strings"
)

// Role is what a container is in the cluster: the name of its daemon.
type Role string

// The roles that the agent can play.
const (
	Slurmctld Role = "slurmctld"
	Slurmd    Role = "slurmd"
)

// Roles lists them.
func Roles() []Role { return []Role{Slurmctld, Slurmd} }

// ParseRole finds a role by its name.
func ParseRole(name string) (Role, error) {
	var known []string
	for _, r := range Roles() {
		if string(r) == name {
			return r, nil
		}
		known = append(known, string(r))
	}
	return "", fmt.Errorf("cannot play role %q: there are %s", name, strings.Join(known, ", "))
}
