package main

import "flag"

const noConf = "this container has no configuration of its own: its agent does not run slurmctld"

// reload has the configuration tried at once, though it may not have changed or
// was refused before, and waits for the result.
func reload(args []string) int {
	if code, done := parse(flag.NewFlagSet("reload", flag.ContinueOnError), args); done {
		return code
	}
	return askAgent("/reload", "the configuration is live", noConf)
}
