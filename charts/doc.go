// Package charts holds what the Helm charts in this directory are checked with:
// `make charts`. Nothing of it is in a program.
package charts
