package reports

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// The bounds of what is kept. A node takes some 160 bytes with its name.
const (
	// mostNodes is Slurm's own bound (MaxNodeCount), and mostText what its names and reasons may have: as much as
	// one report.
	mostNodes = 65_536
	mostText  = 8 << 20
	// A namespace has the room of two of the largest clusters, and all namespaces that of sixteen.
	clustersOfNamespace, clustersOfAll = 2, 16
)

// size is what is kept of nodes.
type size struct {
	nodes int
	// text is the bytes of names and reasons.
	text int
}

func sizeOf(n *wire.NodeReport) size { return size{1, len(n.Name) + len(n.Drain)} }

func (s size) plus(o size) size  { return size{s.nodes + o.nodes, s.text + o.text} }
func (s size) minus(o size) size { return size{s.nodes - o.nodes, s.text - o.text} }

func (s size) times(n int) size { return size{n * s.nodes, n * s.text} }

// within says whether it is no more than another one.
func (s size) within(most size) bool { return s.nodes <= most.nodes && s.text <= most.text }

func (s size) String() string {
	return fmt.Sprintf("%d nodes with %d bytes of names and reasons", s.nodes, s.text)
}

// room is what the clusters of each namespace, and all, take.
type room struct {
	// largest is the most that a cluster may have.
	largest size
	inside  map[string]size // by namespace
	all     size
}

func namespaceOf(cluster string) string {
	namespace, _, _ := strings.Cut(cluster, "/")
	return namespace
}

// change gives a cluster another size, if there is room. What becomes smaller always has.
func (r *room) change(cluster string, from, to size) error {
	namespace := namespaceOf(cluster)
	inside, all := r.inside[namespace].minus(from).plus(to), r.all.minus(from).plus(to)
	if !to.within(from) {
		if err := r.full(cluster, to, inside, all); err != nil {
			return err
		}
	}
	r.all = all
	if r.inside[namespace] = inside; inside == (size{}) {
		delete(r.inside, namespace)
	}
	return nil
}

// full says in which room there is none.
func (r *room) full(cluster string, to, inside, all size) error {
	for _, one := range []struct {
		who        string
		have, most size
	}{
		{"the cluster " + cluster + " has", to, r.largest},
		{"the clusters of the namespace " + namespaceOf(cluster) + " have", inside, r.largest.times(clustersOfNamespace)},
		{"all clusters have", all, r.largest.times(clustersOfAll)},
	} {
		if !one.have.within(one.most) {
			note := fmt.Sprintf("%s %v, and %v are allowed", one.who, one.have, one.most)
			return &peerserver.NotTaken{Code: http.StatusRequestEntityTooLarge, Reason: peerserver.TooManyNodes, Note: note}
		}
	}
	return nil
}
