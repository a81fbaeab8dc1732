package reconfig

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
)

// delivery tells which is the newer one: what the kubelet has delivered into the source directory, or
// what the controller has streamed. It is pure: its callers tell it all, the time too.
//
// A resourceVersion is a number that grows with each change. The directory has none, but its content is
// found among those that the controller has told, and the controller also tells the digests of the
// versions before. A content that nobody has told has no place in that order. Then:
//
//   - Nothing streamed is taken before the directory has held a content that was told: else the agent does
//     not know that this ConfigMap is mounted there.
//   - What the kubelet delivers counts, unless it is older than a streamed version that was taken, or
//     nobody has told it and the kubelet has yet to deliver that version.
//   - The kubelet has deliveryLimit to deliver a streamed version. If the directory still has an older one
//     then, the streamed one stays, and no other is taken before the kubelet has delivered one of them.
type delivery struct {
	// dir is the digest of what the directory holds, empty if it cannot be read.
	dir string
	// known has the number of each content that was told, the last one if there are several.
	known map[string]uint64
	// newest was told last. arrived: the kubelet has delivered it.
	newest  streamedVersion
	arrived bool
	// over takes the directory's place, nil for none.
	over *streamedVersion
	// overdue is the number of a version that the kubelet has not delivered in time, 0 for none.
	overdue uint64
	// away: the controller cannot be asked.
	away bool
}

// streamedVersion is a version of the ConfigMap that the controller has told.
type streamedVersion struct {
	number uint64
	digest string
	files  map[string]string
	at     time.Time // the agent heard of it
}

const (
	// deliveryLimit is longer than a kubelet takes that works: it looks at each pod's volumes about every
	// minute, and where it does not watch ConfigMaps, its copy of one may be some minutes old.
	deliveryLimit = 5 * time.Minute
	// mostKnown bounds the contents that are remembered.
	mostKnown = 64
)

// told takes a version that the controller tells, and the contents of the versions before it.
func (d *delivery) told(v streamedVersion, former map[string]uint64) {
	if d.known == nil {
		d.known = map[string]uint64{}
	}
	d.away = false
	for digest, number := range former {
		if number < v.number {
			d.note(digest, number)
		}
	}
	_, before := d.known[v.digest]
	d.note(v.digest, v.number)
	switch {
	case v.number <= d.newest.number: // an old one, or told again
	case v.digest == d.newest.digest:
		d.newest.number = v.number
	default:
		d.newest = v
		// A content that was there before may be the former one: newer ones may have been on their way
		// between the two.
		d.arrived = v.digest == d.dir && !before
	}
	d.decide(v.at)
}

func (d *delivery) note(digest string, number uint64) {
	d.known[digest] = max(d.known[digest], number)
	if len(d.known) > mostKnown {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(d.known)), func(a, b string) int {
			if d.known[a] < d.known[b] {
				return -1
			}
			return 1
		})
		delete(d.known, oldest)
	}
}

// delivered takes what the directory holds now.
func (d *delivery) delivered(digest string, now time.Time) {
	if digest != d.dir && digest == d.newest.digest {
		d.arrived = true
	}
	d.dir = digest
	d.decide(now)
}

// decide chooses between the directory and the newest version.
func (d *delivery) decide(now time.Time) {
	number, known := d.known[d.dir]
	inTime := now.Sub(d.newest.at) < deliveryLimit
	if known && number >= d.overdue {
		d.overdue = 0
	}
	stands := d.over != nil
	switch {
	case d.newest.number == 0: // nothing was told
	case d.dir == d.newest.digest:
		d.arrived = d.arrived || !inTime
		d.use(!d.arrived)
	case known && d.arrived: // the kubelet was ahead, and goes back; or somebody has
		d.use(inTime && !d.away)
	case known && d.overdue != 0: // no more before the kubelet has delivered one
	case known && inTime:
		d.use(true)
	case known && stands:
		d.overdue = d.over.number
	case known:
	default: // the controller may not know it yet, or has missed it
		d.use(stands && !d.arrived && inTime && !d.away)
	}
}

func (d *delivery) use(streamed bool) {
	d.over = nil
	if streamed {
		v := d.newest
		d.over = &v
	}
}

// forgo has the directory count where the kubelet is overdue.
func (d *delivery) forgo() {
	if d.overdue != 0 {
		d.over = nil
	}
}

// waits: the kubelet has not delivered a streamed version yet, which is in use.
func (d *delivery) waits() bool { return d.over != nil && d.dir != d.over.digest }

// stream is what the controller has streamed of the ConfigMap.
type stream struct {
	mu sync.Mutex
	delivery
	// post takes what the sources hold, once something was streamed. look ends with the kubelet's time.
	post func(lifecycle.Event)
	look *time.Timer
	// said was logged last, of these contents.
	said, saidOf, saidOver string
}
