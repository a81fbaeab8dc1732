package pods

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/kit/role"
)

// notTaken are the reasons of reports that the controller does not take.
var notTaken = []string{peerserver.TooLong, peerserver.TooOften, peerserver.TooManyNodes, peerserver.BadReport}

// sayAgain is the least time between two events that say that reports of a pod are not taken. An event lives as long.
const sayAgain = time.Hour

// NotTaken has an event of slurmctld's pod say why its reports are not taken.
func (w *Watcher) NotTaken(id peerserver.Identity, why *peerserver.NotTaken) {
	p := w.Get(id.Pod)
	if p == nil || string(p.UID) != id.UID || !w.faults.mayTell(subject{types.UID(id.UID), why.Reason}, time.Now()) {
		return
	}
	f := Fault{why.Reason, fmt.Sprintf("The controller does not take what slurmctld's agent tells of the nodes of the cluster %s: %s.", id.Cluster, why.Note)}
	w.faults.tell(p, f, time.Now().Add(newsTime))
	if w.lines.TryAccept() {
		w.log.Warn("a report is not taken", "cluster", id.Cluster, "pod", p.Name, "reason", f.Reason, "fault", why.Note)
	}
}

// mayTell says whether it is time to tell.
func (f *faults) mayTell(about subject, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last, said := f.said[about]; said && now.Sub(last) < sayAgain {
		return false
	}
	f.said[about] = now
	return true
}

// HasSlurmctld says whether a cluster has a pod of slurmctld that may run again.
func (w *Watcher) HasSlurmctld(cluster string) bool {
	for _, p := range w.InCluster(cluster) {
		if p.Role.Value() == role.Slurmctld && !p.Over {
			return true
		}
	}
	return false
}
