package bridge

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/slurmlet/slurmlet/controller/internal/queue"
)

// resources are the kinds whose annotations and sizes count, by their groups.
var resources = map[schema.GroupKind]string{
	{Group: "batch", Kind: "Job"}:                                "jobs",
	{Group: "apps", Kind: "ReplicaSet"}:                          "replicasets",
	{Group: "apps", Kind: "Deployment"}:                          "deployments",
	{Group: "apps", Kind: "StatefulSet"}:                         "statefulsets",
	{Group: "jobset.x-k8s.io", Kind: "JobSet"}:                   "jobsets",
	{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}: "leaderworkersets",
	{Group: "scheduling.x-k8s.io", Kind: "PodGroup"}:             "podgroups",
	{Group: "scheduling.k8s.io", Kind: "PodGroup"}:               "podgroups",
	{Group: "scheduling.volcano.sh", Kind: "PodGroup"}:           "podgroups",
}

// podGroupVersions are those that PodGroups have had, the newest first.
var podGroupVersions = map[string][]string{"scheduling.k8s.io": {"v1beta1", "v1alpha2"}, "scheduling.x-k8s.io": {"v1alpha1"}, "scheduling.volcano.sh": {"v1beta1"}}

const (
	// mostOwners bounds a chain, and mostCached the owners that are remembered, each for ownerTime.
	mostOwners, mostCached = 4, 10_000
	ownerTime              = time.Minute
)

// ownerCache remembers owners for a while: a Job with 1,000 pods is asked for once.
type ownerCache struct {
	api dynamic.Interface
	mu  sync.Mutex
	all map[string]cachedOwner
}

type cachedOwner struct {
	object *unstructured.Unstructured // nil: there is none
	until  time.Time
}

func newOwnerCache(api dynamic.Interface) *ownerCache {
	return &ownerCache{api: api, all: map[string]cachedOwner{}}
}

// of are a pod's PodGroup and its chain of owners. An owner that is gone ends the chain; an error says that nobody could
// tell.
func (c *ownerCache) of(ctx context.Context, p *corev1.Pod) ([]queue.Owner, error) {
	return c.chain(ctx, p, c.get)
}

// fresh is of, without what is remembered.
func (c *ownerCache) fresh(ctx context.Context, p *corev1.Pod) ([]queue.Owner, error) {
	return c.chain(ctx, p, c.ask)
}

type getter func(ctx context.Context, of schema.GroupVersionResource, namespace, name, uid string) (*unstructured.Unstructured, error)

func (c *ownerCache) chain(ctx context.Context, p *corev1.Pod, get getter) (owners []queue.Owner, err error) {
	if group, name := queue.PodGroupOf(p); name != "" {
		one, err := c.podGroup(ctx, group, p.Namespace, name, get)
		if err != nil {
			return nil, err
		}
		owners = append(owners, ownerOf(one))
	}
	ref := metav1.GetControllerOfNoCopy(p)
	for range mostOwners {
		if ref == nil {
			break
		}
		version, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil {
			break
		}
		resource, known := resources[schema.GroupKind{Group: version.Group, Kind: ref.Kind}]
		if !known {
			break
		}
		object, err := get(ctx, version.WithResource(resource), p.Namespace, ref.Name, string(ref.UID))
		if err != nil {
			return nil, fmt.Errorf("the %s %s cannot be read: %v", ref.Kind, ref.Name, err)
		}
		if object == nil {
			break
		}
		owners = append(owners, ownerOf(object))
		ref = metav1.GetControllerOfNoCopy(object)
	}
	return owners, nil
}

func (c *ownerCache) podGroup(ctx context.Context, group, namespace, name string, get getter) (object *unstructured.Unstructured, err error) {
	for _, version := range podGroupVersions[group] {
		object, err = get(ctx, schema.GroupVersionResource{Group: group, Version: version, Resource: "podgroups"}, namespace, name, "")
		if object != nil {
			return object, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("there is none")
	}
	return nil, fmt.Errorf("the PodGroup %s of the group %s cannot be read: %v", name, group, err)
}

func (c *ownerCache) get(ctx context.Context, of schema.GroupVersionResource, namespace, name, uid string) (*unstructured.Unstructured, error) {
	key := of.String() + namespace + "/" + name + "/" + uid
	c.mu.Lock()
	known, there := c.all[key]
	c.mu.Unlock()
	if there && time.Now().Before(known.until) {
		return known.object, nil
	}
	object, err := c.ask(ctx, of, namespace, name, uid)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) >= mostCached {
		clear(c.all)
	}
	c.all[key] = cachedOwner{object, time.Now().Add(ownerTime)}
	return object, nil
}

// ask is nil for an object that is not there, or is another one.
func (c *ownerCache) ask(ctx context.Context, of schema.GroupVersionResource, namespace, name, uid string) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	object, err := c.api.Resource(of).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case uid != "" && string(object.GetUID()) != uid:
		return nil, nil
	}
	object.SetManagedFields(nil)
	return object, nil
}

// ownerOf is what counts of an owner.
func ownerOf(o *unstructured.Unstructured) queue.Owner {
	one := queue.Owner{Kind: o.GetKind(), Name: o.GetName(), UID: string(o.GetUID()), Annotations: o.GetAnnotations()}
	number := func(fields ...string) int64 {
		n, _, _ := unstructured.NestedInt64(o.Object, fields...)
		return n
	}
	switch one.Kind {
	case "Job":
		one.Size, one.Deadline = int(number("spec", "parallelism")), number("spec", "activeDeadlineSeconds")
		one.End = jobEnd(o)
	case "JobSet":
		one.Size = jobSetSize(o)
		state, _, _ := unstructured.NestedString(o.Object, "status", "terminalState")
		one.End = queue.OwnerEnd{Done: state != ""}
		if state != "Completed" {
			one.End.Status = 1
		}
	case "PodGroup":
		one.Size = int(max(number("spec", "minMember"), number("spec", "schedulingPolicy", "gang", "minCount")))
	}
	return one
}

// jobEnd reads a Job's conditions.
func jobEnd(o *unstructured.Unstructured) queue.OwnerEnd {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range conditions {
		c, is := one.(map[string]any)
		if !is || c["status"] != "True" {
			continue
		}
		switch c["type"] {
		case "Complete":
			return queue.OwnerEnd{Done: true}
		case "Failed":
			return queue.OwnerEnd{Done: true, Status: 1}
		}
	}
	return queue.OwnerEnd{}
}

// jobSetSize is the sum of its Jobs' pods.
func jobSetSize(o *unstructured.Unstructured) (size int) {
	jobs, _, _ := unstructured.NestedSlice(o.Object, "spec", "replicatedJobs")
	for _, one := range jobs {
		j, is := one.(map[string]any)
		if !is {
			continue
		}
		replicas, found, _ := unstructured.NestedInt64(j, "replicas")
		if !found {
			replicas = 1
		}
		parallelism, found, _ := unstructured.NestedInt64(j, "template", "spec", "parallelism")
		if !found {
			parallelism = 1
		}
		size += int(replicas * parallelism)
	}
	return size
}
