package files

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
)

// configMap is what the controller keeps of a ConfigMap: its data once, as the stream sends it.
type configMap struct {
	metav1.ObjectMeta // without labels, annotations, owners and managers
	// cluster is a namespace and the label's value.
	cluster string
	number  uint64
	digest  string
	data    json.RawMessage
	fault   *Fault
}

// Fault is why a ConfigMap is not streamed, in the words of an event.
type Fault struct{ Reason, Note string }

// The reasons of the events.
const (
	noSlurmConf = "NoSlurmConf"
	binary      = "BinaryData"
	immutable   = "Immutable"
	key         = "Key"
	tooMany     = "TooManyFiles"
	second      = "SecondConfigMap"
	badVersion  = "BadVersion"
)

// trim makes a configMap of Kubernetes' one. One that is not streamed keeps no data.
func trim(object any) (any, error) {
	from, is := object.(*corev1.ConfigMap)
	if !is {
		return object, nil // trimmed already
	}
	m := &configMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: from.Namespace, Name: from.Name, UID: from.UID, ResourceVersion: from.ResourceVersion, CreationTimestamp: from.CreationTimestamp,
		},
		cluster: from.Namespace + "/" + from.Labels[Label], digest: confset.TextsDigest(from.Data),
	}
	m.number, m.fault = number(from.ResourceVersion)
	if m.fault == nil {
		m.fault = faultOf(from)
	}
	if m.fault != nil {
		return m, nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // three times as long
	if err := encoder.Encode(from.Data); err != nil {
		return nil, fmt.Errorf("cannot encode the ConfigMap %s/%s: %w", from.Namespace, from.Name, err)
	}
	m.data = slices.Clip(bytes.Clone(bytes.TrimSpace(text.Bytes())))
	return m, nil
}

// faultOf is why a ConfigMap is not streamed, nil if it is.
func faultOf(m *corev1.ConfigMap) *Fault {
	if _, there := m.Data[confset.Main]; !there {
		return &Fault{noSlurmConf, fmt.Sprintf("The ConfigMap has the label %s and no %s, so it is not streamed.", Label, confset.Main)}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Data)) {
		if confset.IsKey(name) {
			return &Fault{key, fmt.Sprintf("The ConfigMap has %s, which is a key or has a password, so it is not streamed. Keys belong into a Secret, which the kubelet alone delivers.", name)}
		}
	}
	switch {
	case m.Immutable != nil && *m.Immutable:
		return &Fault{immutable, "The ConfigMap is immutable, so the kubelet delivers no other version, and none is streamed."}
	case len(m.BinaryData) > 0:
		return &Fault{binary, "The ConfigMap has binaryData, so it is not streamed. The kubelet delivers it."}
	case len(m.Data) > confset.MaxFiles:
		return &Fault{tooMany, fmt.Sprintf("The ConfigMap has %d files, so it is not streamed: at most %d are allowed.", len(m.Data), confset.MaxFiles)}
	}
	return nil
}
