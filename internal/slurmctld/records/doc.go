// Package records reports slurmctld's nodes to slurmlet's controller, and does what noderecords plans for the records
// whose pods are gone: it deletes them, has keptrecords look after those that stay, and sets nodes DOWN whose machines
// are gone.
package records
