// Package role names what a container is in the cluster: the agent's argument, the value of the label slurmlet.dev/role, and
// a peer's role on the wire.
package role

import "strings"

// Role is the daemon that a container runs.
type Role string

// The roles.
const (
	Slurmctld  Role = "slurmctld"
	Slurmd     Role = "slurmd"
	Login      Role = "login" // sackd, and the sshd that users come in by
	Slurmdbd   Role = "slurmdbd"
	Slurmrestd Role = "slurmrestd"
)

// All lists them.
func All() []Role { return []Role{Slurmctld, Slurmd, Login, Slurmdbd, Slurmrestd} }

// List names them for people.
func List() string {
	var names []string
	for _, one := range All() {
		names = append(names, string(one))
	}
	return strings.Join(names, ", ")
}
