// Package webpage is the status page for people: slurmlet web. It reads what slurmctld's agent
// knows (package pagefacts), and serves HTML that works without JavaScript.
//
// A stranger sees counts and states alone. Names of nodes, users and jobs, and texts that people
// or daemons have written, are for whoever has a password or one of Slurm's tokens.
package webpage
