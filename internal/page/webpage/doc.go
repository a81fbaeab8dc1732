// Package webpage is the status page for people: slurmlet-web. It reads what slurmctld's agent knows (package
// pagefacts), and serves HTML that works without JavaScript.
//
// The page knows no password. It is on loopback, where kubectl port-forward leads, or behind a proxy that names the
// reader in a header. A reader without a name sees counts and states alone. Names of nodes, users and jobs, and texts
// that people or daemons have written, are for readers with a name.
package webpage
