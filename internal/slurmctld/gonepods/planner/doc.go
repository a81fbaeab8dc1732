// Package planner plans what becomes of the node records whose pods are gone, or of which no pod is known.
//
// Nothing here asks anybody. Package gonepods brings what slurmctld and slurmlet's controller have said, and does what a
// Plan says.
package planner
