// Package fakekube is Kubernetes' API in memory, for tests with synctest. It has the
// groups that the controller's loops use. client-go's kubernetes/fake has all of them,
// in some sixty packages that every first run would compile.
package fakekube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	appsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	fakeappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1/fake"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	fakecorev1 "k8s.io/client-go/kubernetes/typed/core/v1/fake"
	eventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	fakeeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1/fake"
	"k8s.io/client-go/testing"
)

// Clientset panics when it is asked for another group.
type Clientset struct {
	kubernetes.Interface
	testing.Fake
	objects testing.ObjectTracker
}

// New makes an API that has these objects.
func New(objects ...runtime.Object) *Clientset {
	c := &Clientset{objects: testing.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())}
	for _, o := range objects {
		if err := c.objects.Add(o); err != nil {
			panic(err)
		}
	}
	c.AddReactor("*", "*", testing.ObjectReaction(c.objects))
	c.AddWatchReactor("*", func(a testing.Action) (bool, watch.Interface, error) {
		var options metav1.ListOptions
		if w, is := a.(testing.WatchActionImpl); is {
			options = w.ListOptions
		}
		w, err := c.objects.Watch(a.GetResource(), a.GetNamespace(), options)
		return err == nil, w, err
	})
	return c
}

// Tracker has the objects.
func (c *Clientset) Tracker() testing.ObjectTracker { return c.objects }

func (c *Clientset) CoreV1() corev1.CoreV1Interface { return &fakecorev1.FakeCoreV1{Fake: &c.Fake} }

func (c *Clientset) AppsV1() appsv1.AppsV1Interface { return &fakeappsv1.FakeAppsV1{Fake: &c.Fake} }

func (c *Clientset) EventsV1() eventsv1.EventsV1Interface {
	return &fakeeventsv1.FakeEventsV1{Fake: &c.Fake}
}

// IsWatchListSemanticsUnSupported has client-go list before it watches: the objects' watches have no first events.
func (c *Clientset) IsWatchListSemanticsUnSupported() bool { return true }
