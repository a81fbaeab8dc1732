package agent

// without are the controllers by which this node's container can hold no job.
func (a *Agent) without() (all []string) {
	if !a.daemon.registers {
		return nil
	}
	for _, m := range a.delegated.Missing {
		all = append(all, m.Controller)
	}
	if a.delegated.Steps == "" {
		all = []string{"cpuset", "devices", "memory"}
	}
	return all
}
