// Package hooks tries what runs `slurmlet check` for others, and this repository's own
// workflows, as far as that goes without GitHub. Its tests have the tag e2e: `make hooks`.
package hooks
