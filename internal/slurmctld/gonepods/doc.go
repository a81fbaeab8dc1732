// Package gonepods does what its planner plans for the node records whose pods are gone: it deletes them, leaves those that
// stay to package kept, and sets nodes DOWN whose machines are gone. It looks at slurmctld's nodes, and reports them to
// slurmlet's controller.
package gonepods
