// Package hostname says what may be a pod's host name, and where a pod may be reached.
package hostname

import (
	"net/netip"
	"strings"
)

// Longest is the longest host name of Linux and of Slurm, in bytes.
const Longest = 63

const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// Valid accepts names of one host, with dots or without, and nothing that Slurm takes for a list. It refuses "localhost",
// which stays the machine's own, and addresses.
func Valid(name string) bool {
	if name == "" || strings.EqualFold(name, "localhost") || strings.Trim(name, alphanumeric+"-_.") != "" ||
		strings.Trim(name, "-_.") != name {
		return false
	}
	_, err := netip.ParseAddr(name)
	return err != nil
}

// ValidPod accepts what may be the host name of a pod. A name with a dot could be that of a service, or of
// another's host.
func ValidPod(name string) bool {
	return len(name) <= Longest && !strings.Contains(name, ".") && Valid(name)
}

// Reachable says whether an address can be that of a pod.
func Reachable(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast()
}
