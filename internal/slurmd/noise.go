package slurmd

import "strings"

// differsFromHardware begins an error that slurmd writes at every start, because the pod is a part of the machine.
const differsFromHardware = "Node configuration differs from hardware"

// IsNoise says whether an error of slurmd's is known and harmless. A nil Node has none.
func (n *Node) IsNoise(line string) bool {
	return n != nil && strings.HasPrefix(line, differsFromHardware)
}
