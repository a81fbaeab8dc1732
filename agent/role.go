package agent

import (
	"fmt"
	"slices"
	"strings"
)

// Role is what a container is in the cluster.
type Role string

// The roles that the agent can play.
const (
	Slurmctld Role = "slurmctld"
	Slurmd    Role = "slurmd"
	Login     Role = "login" // sackd, and the sshd that users come in by
	Slurmdbd  Role = "slurmdbd"

	Slurmrestd Role = "slurmrestd"
)

// Roles lists them.
func Roles() []Role { return []Role{Slurmctld, Slurmd, Login, Slurmdbd, Slurmrestd} }

// ParseRole finds a role by its name.
func ParseRole(name string) (Role, error) {
	if slices.Contains(Roles(), Role(name)) {
		return Role(name), nil
	}
	var known []string
	for _, r := range Roles() {
		known = append(known, string(r))
	}
	return "", fmt.Errorf("cannot play role %q: there are %s", name, strings.Join(known, ", "))
}
