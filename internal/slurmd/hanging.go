package slurmd

import (
	"context"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurmd/hang"
)

// hangCheck is nil for a nil Node.
func (n *Node) hangCheck() *hang.Check {
	if n == nil {
		return nil
	}
	return n.hang
}

// Asked is called with every question to slurmctld: where one takes long, slurmd may be what hangs. It takes a nil Node.
func (n *Node) Asked(question context.Context) { n.hangCheck().Asked(question) }

// AtProbe checks slurmd when the kubelet asks for its pod anyway. It takes a nil Node.
func (n *Node) AtProbe() { n.hangCheck().AtProbe() }

// SetHangLimit sets for how long slurmd may hang. It takes a nil Node.
func (n *Node) SetHangLimit(limit time.Duration) { n.hangCheck().SetLimit(limit) }

// CheckWhileStopping checks slurmd now and then on the way down.
func (n *Node) CheckWhileStopping() { n.hangCheck().WhileStopping() }
