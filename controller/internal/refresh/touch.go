package refresh

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/controller/internal/events"
	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// patchTimeout is less than a new leader waits for the Lease.
const patchTimeout = 5 * time.Second

// touch changes the annotation of this pod alone, and not of a later one of its name. Its value has the number of the
// try from the second one on: the kubelet looks at a pod that has changed. The subresource status takes
// annotations, too, so the controller needs no right to change pods themselves.
func (t *term) touch(ctx context.Context, p *pods.Pod, e *edit) error {
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
	version := e.ResourceVersion
	if e.tries > 0 {
		version = fmt.Sprintf("%s-%d", version, e.tries+1)
	}
	type object = map[string]any
	body, err := json.Marshal(object{"metadata": object{"uid": p.UID, "annotations": object{wellknown.ConfigVersion: version}}})
	if err != nil {
		return err
	}
	t.log.Info("the kubelet is to deliver a ConfigMap", "namespace", p.Namespace, "configMap", e.Name, "pod", p.Name, "version", version)
	_, err = t.api.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone, and a pod of its name is another one
	}
	return err
}

// NotDelivered is the reason of the event of a ConfigMap that no touch has brought to a pod.
const NotDelivered = "NotDelivered"

// tell has an event say which pod does not have a version. An agent that reports nothing may have it.
func (t *term) tell(m *configMap, late []*pods.Pod) {
	for _, p := range late {
		if m.digest == "" || t.reports.Conf(p.Cluster()) == "" {
			continue
		}
		var all time.Duration
		for _, one := range waits {
			all += one
		}
		note := fmt.Sprintf("The pod %s does not have version %s of the ConfigMap %s after %s. The kubelet delivers it within about a minute,"+
			" unless the pod mounts it by subPath or has other files in the directory of slurm.conf.", p.Name, m.ResourceVersion, m.Name, all)
		t.log.Warn("a ConfigMap is not delivered", "namespace", m.Namespace, "configMap", m.Name, "pod", p.Name, "version", m.ResourceVersion)
		t.events.Put(m.UID, events.Event{
			Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: m.Namespace, Name: m.Name, UID: m.UID},
			Type:      corev1.EventTypeWarning, Reason: NotDelivered, Note: note, Action: "Refresh",
		})
	}
}
