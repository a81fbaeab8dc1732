// Package events writes events on Kubernetes' objects, each of them once, whoever leads.
package events

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Event says something about an object.
type Event struct {
	Regarding corev1.ObjectReference
	// Type is Normal or Warning.
	Type, Reason, Note, Action string
	// About tells events of one text from one another.
	About string
}

const (
	// mostNote is what Kubernetes takes of a note.
	mostNote = 1024
	// mostName leaves room for the dot and the digest in the 253 characters of a name.
	mostName = 200
)

// Write makes an event whose name follows from what it says, so that nobody makes it twice. A namespace
// that ends takes none. reporter is the replica's name.
func Write(ctx context.Context, api kubernetes.Interface, reporter string, e Event) error {
	on := e.Regarding
	sum := sha256.Sum256([]byte(string(on.UID) + e.Reason + e.Note + e.About))
	_, err := api.EventsV1().Events(on.Namespace).Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: on.Namespace, Name: on.Name[:min(len(on.Name), mostName)] + "." + hex.EncodeToString(sum[:8])},
		EventTime:  metav1.NowMicro(), Type: e.Type, Reason: e.Reason, Note: strings.ToValidUTF8(e.Note[:min(len(e.Note), mostNote)], ""), Action: e.Action,
		ReportingController: "slurmlet.dev/controller", ReportingInstance: reporter, Regarding: on,
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
