package peerserver

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The bounds of what reports cost until they are taken.
const (
	// mostReport bounds the body of a report: 10,000 nodes with reasons take 2 MiB, and as many as a cluster can
	// have without them 2.6 MB.
	mostReport = 8 << 20
	// mostOfNamespace bounds the bodies of one namespace's pods that are on their way, mostOnWay those of all.
	mostOfNamespace = mostReport
	mostOnWay       = 4 * mostReport
	// timeOfReport is how long a body keeps its room while others need it.
	timeOfReport = 2 * time.Second
	// A cluster may send burst bytes at once and rate more each second, a namespace fourfold. A report counts as
	// leastCost bytes and its own, so that a cluster's agent may send 64 short ones in a second. It sends two.
	burst           = 4 * mostReport
	rate            = 1 << 20
	leastCost       = 16 << 10
	namespaceFactor = 4
	// mostBuckets bounds the buckets that are kept although they are full.
	mostBuckets = 1024
)

// intake bounds the reports that are on their way. A pod has one of them, and its next one ends it. Bodies are
// read whole, within the room of their namespaces and of all, and are taken one after the other: what a body
// becomes is there once.
type intake struct {
	mu      sync.Mutex
	pods    map[string]*delivery // by UID
	inside  map[string]int       // bytes on their way by namespace
	onWay   int
	buckets map[bucketOf]*bucket
	now     func() time.Time

	// taking is held while a body becomes a report.
	taking sync.Mutex
}

// delivery is a report on its way.
type delivery struct {
	id   Identity
	conn net.Conn // nil in tests
	size int
	// since is when the delivery began.
	since time.Time
	stage stage
}

type stage int

const (
	reading   stage = iota // the body comes
	taken                  // the body is there, and waits to be taken
	answering              // nothing is left of the body
)

func newIntake() *intake {
	return &intake{pods: map[string]*delivery{}, inside: map[string]int{}, buckets: map[bucketOf]*bucket{}, now: time.Now}
}

// NotTaken is why the server takes no report. It is an error.
type NotTaken struct {
	// Code is the answer's status.
	Code int
	// Reason is a word for metrics and events; empty where an agent that asks again is taken. Note is a sentence
	// for slurmctld's agent.
	Reason, Note string
}

func (n *NotTaken) Error() string { return n.Note }

// The reasons of NotTaken.
const (
	TooLong      = "TooLong"
	TooOften     = "TooOften"
	TooManyNodes = "TooManyNodes"
	BadReport    = "BadReport"
)

// reasons are all, in the order of counters.notTaken.
var reasons = []string{TooLong, TooOften, TooManyNodes, BadReport}

// noRoom is the answer to a report that comes while others take the room.
var noRoom = &NotTaken{Code: http.StatusServiceUnavailable, Note: "other reports take the room: ask again"}

// admit gives a report room, and returns those that have to go for it: their connections are to be ended.
func (in *intake) admit(d *delivery) (out []*delivery, err error) {
	if err := checkSize(d.size); err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	d.since = in.now()
	if in.pods[d.id.UID] != nil && in.pods[d.id.UID].stage == taken {
		return nil, noRoom
	}
	cluster, namespace := in.bucket(bucketOf{cluster: d.id.Cluster}), in.bucket(bucketOf{namespace: namespaceOf(d.id)})
	if cost := float64(d.size + leastCost); cluster.left < cost || namespace.left < cost {
		return nil, &NotTaken{http.StatusTooManyRequests, TooOften, "slurmctld's agents of the cluster send more than the controller takes"}
	}
	if former := in.pods[d.id.UID]; former != nil {
		in.remove(former)
		out = append(out, former)
	}
	for !in.fits(d) {
		slow := in.slow(d)
		if slow == nil {
			return out, noRoom
		}
		in.remove(slow)
		out = append(out, slow)
	}
	cluster.left -= float64(d.size + leastCost)
	namespace.left -= float64(d.size + leastCost)
	in.pods[d.id.UID] = d
	in.count(d, d.size)
	return out, nil
}

func checkSize(size int) error {
	switch {
	case size < 0:
		return &NotTaken{http.StatusLengthRequired, BadReport, "the report does not say its length"}
	case size > mostReport:
		return &NotTaken{http.StatusRequestEntityTooLarge, TooLong, "the report has more than 8 MiB"}
	}
	return nil
}

// fits says whether there is room. The caller holds mu.
func (in *intake) fits(d *delivery) bool {
	return in.inside[namespaceOf(d.id)]+d.size <= mostOfNamespace && in.onWay+d.size <= mostOnWay
}

// slow is the oldest body that has had its time and whose end makes room for d; nil if there is none. The caller
// holds mu.
func (in *intake) slow(d *delivery) (oldest *delivery) {
	own := in.inside[namespaceOf(d.id)]+d.size > mostOfNamespace
	for _, one := range in.pods {
		if one.stage != reading || one.size == 0 || d.since.Sub(one.since) <= timeOfReport || own && namespaceOf(one.id) != namespaceOf(d.id) {
			continue
		}
		if oldest == nil || one.since.Before(oldest.since) {
			oldest = one
		}
	}
	return oldest
}

// read says that the whole body is there. It is false if the delivery had to go.
func (in *intake) read(d *delivery) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.pods[d.id.UID] != d {
		return false
	}
	d.stage = taken
	return true
}

// drop says that nothing is left of the body.
func (in *intake) drop(d *delivery) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.pods[d.id.UID] == d {
		in.count(d, -d.size)
		d.size, d.stage = 0, answering
	}
}

// leave ends a delivery.
func (in *intake) leave(d *delivery) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.remove(d)
}

// remove takes d off those on their way. The caller holds mu.
func (in *intake) remove(d *delivery) {
	if in.pods[d.id.UID] == d {
		delete(in.pods, d.id.UID)
		in.count(d, -d.size)
	}
}

// count adds bytes of a namespace. The caller holds mu.
func (in *intake) count(d *delivery, size int) {
	namespace := namespaceOf(d.id)
	in.onWay += size
	if in.inside[namespace] += size; in.inside[namespace] == 0 {
		delete(in.inside, namespace)
	}
}

// namespaceOf is the namespace of a cluster's pods.
func namespaceOf(id Identity) string {
	namespace, _, _ := strings.Cut(id.Cluster, "/")
	return namespace
}

// bucketOf is a cluster or a namespace, whose reports have a rate.
type bucketOf struct{ cluster, namespace string }

// bucket has the bytes that may come now.
type bucket struct {
	left  float64
	since time.Time
}

func (of bucketOf) factor() float64 {
	if of.namespace != "" {
		return namespaceFactor
	}
	return 1
}

// at is the bucket as it is now.
func (b *bucket) at(now time.Time, factor float64) bucket {
	return bucket{min(factor*burst, b.left+now.Sub(b.since).Seconds()*factor*rate), now}
}

// bucket finds or makes one, as it is now. The caller holds mu.
func (in *intake) bucket(of bucketOf) *bucket {
	now := in.now()
	if in.buckets[of] == nil {
		if len(in.buckets) >= mostBuckets {
			for other, b := range in.buckets {
				if b.at(now, other.factor()).left >= other.factor()*burst {
					delete(in.buckets, other)
				}
			}
		}
		in.buckets[of] = &bucket{of.factor() * burst, now}
	}
	b := in.buckets[of]
	*b = b.at(now, of.factor())
	return b
}
