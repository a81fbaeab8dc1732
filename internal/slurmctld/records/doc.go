// Package records tells slurmlet's controller of slurmctld's nodes, and does what noderecords plans for the records
// whose pods are gone: it deletes them, has keptrecords look after those that stay, and sets nodes DOWN whose machines
// are gone.
package records
