// Package roll replaces the pods of an older revision, where the updateStrategy of a StatefulSet or
// DaemonSet is OnDelete: idle nodes first, and busy ones as they become idle.
package roll
