package bridge

import (
	"context"
	"fmt"
	"slices"
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

// sets are LeaderWorkerSets, as their pods name them.
var sets = schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"}

// podGroupVersions are those that PodGroups have had, the newest first.
var podGroupVersions = map[string][]string{"scheduling.k8s.io": {"v1beta1", "v1alpha2"}, "scheduling.x-k8s.io": {"v1alpha1"}, "scheduling.volcano.sh": {"v1beta1"}}

const (
	// mostOwners bounds a chain, and mostCached the owners that are remembered, each for ownerTime: what is not there may
	// come, and is remembered for less than pause.
	mostOwners, mostCached = 4, 10_000
	ownerTime, absentTime  = time.Minute, pause / 2
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

// watched is an owner whose end is a group's.
type watched struct {
	schema.GroupVersionResource
	name, uid string
}

// owners are those of a group's pods.
type owners struct {
	all []watched
	// more says that others make pods of the group, too, of which nobody knows how they end.
	more bool
}

// mostWatched bounds the owners of a group that are asked for.
const mostWatched = 16

// add has an owner be one of them. more says that there is one of which nobody knows how it ends.
func (o *owners) add(one watched, more bool) {
	if one != (watched{}) && !slices.Contains(o.all, one) {
		if more = len(o.all) == mostWatched; !more {
			o.all = append(slices.Clone(o.all), one)
		}
	}
	o.more = o.more || more
}

// end asks how the owners of a group have ended; false if one has not, or nobody could tell. An owner that is gone, or goes, makes
// no more pods, and neither does a group of a LeaderWorkerSet with fewer replicas. A PodGroup has ended when all of its pods' owners
// have, or when it is gone.
func (c *ownerCache) end(ctx context.Context, namespace string, o owners, index int, podGroup watched) (end queue.OwnerEnd, is bool) {
	if podGroup != (watched{}) {
		one, there, err := c.fresh(ctx, namespace, podGroup)
		switch {
		case err != nil:
			return end, false
		case !there || one.Deleting:
			return queue.OwnerEnd{Done: true, Status: 1}, true
		case o.more:
			return end, false
		}
	}
	for _, w := range o.all {
		one, there, err := c.fresh(ctx, namespace, w)
		switch {
		case err != nil:
			return end, false
		case !there || one.Deleting && !one.End.Done || one.Kind == "LeaderWorkerSet" && index >= one.Replicas:
			one.End = queue.OwnerEnd{Done: true, Status: 1}
		}
		if !one.End.Done {
			return end, false
		}
		end.Status = max(end.Status, one.End.Status)
	}
	end.Done = true
	return end, true
}

// fresh is an owner as it is now. There may be none, or another one of its name.
func (c *ownerCache) fresh(ctx context.Context, namespace string, w watched) (owner queue.Owner, there bool, err error) {
	object, err := c.ask(ctx, w.GroupVersionResource, namespace, w.name, w.uid)
	if err != nil || object == nil {
		return queue.Owner{}, false, err
	}
	return ownerOf(object), true, nil
}

// watch says how an owner is asked for, which was found for a pod; the zero value if nobody watches it.
func watch(owners []queue.Owner, uid string) watched {
	for _, o := range owners {
		if uid == "" || o.UID != uid {
			continue
		}
		version, err := schema.ParseGroupVersion(o.APIVersion)
		if resource, known := resources[schema.GroupKind{Group: version.Group, Kind: o.Kind}]; err == nil && known {
			return watched{version.WithResource(resource), o.Name, o.UID}
		}
		return watched{}
	}
	return watched{}
}

type getter func(ctx context.Context, of schema.GroupVersionResource, namespace, name, uid string) (*unstructured.Unstructured, error)

func (c *ownerCache) chain(ctx context.Context, p *corev1.Pod, get getter) (owners []queue.Owner, err error) {
	var workload []queue.Owner
	if group, name := queue.PodGroupOf(p); name != "" {
		one, err := c.podGroup(ctx, group, p.Namespace, name, get)
		if err != nil {
			return nil, err
		}
		owners = append(owners, ownerOf(one))
		if workload, err = c.workload(ctx, one, get); err != nil {
			return nil, err
		}
	}
	controllers, err := c.controllers(ctx, p, get)
	return append(append(owners, controllers...), workload...), err
}

// controllers are a pod's owners, the nearest first.
func (c *ownerCache) controllers(ctx context.Context, p *corev1.Pod, get getter) (owners []queue.Owner, err error) {
	if name := queue.SetOf(p); name != "" {
		one, err := get(ctx, sets, p.Namespace, name, "")
		if err != nil {
			return nil, fmt.Errorf("the LeaderWorkerSet %s cannot be read: %v", name, err)
		}
		if one != nil {
			owners = append(owners, ownerOf(one))
		}
		return owners, nil
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

// workload is the Workload of a PodGroup, if it has one: its annotations count most.
func (c *ownerCache) workload(ctx context.Context, podGroup *unstructured.Unstructured, get getter) ([]queue.Owner, error) {
	name, _, _ := unstructured.NestedString(podGroup.Object, "spec", "workloadRef", "workloadName")
	if name == "" {
		name, _, _ = unstructured.NestedString(podGroup.Object, "spec", "podGroupTemplateRef", "workload", "workloadName") // v1alpha2
	}
	if name == "" {
		return nil, nil
	}
	of := podGroup.GroupVersionKind().GroupVersion().WithResource("workloads")
	one, err := get(ctx, of, podGroup.GetNamespace(), name, "")
	switch {
	case err != nil:
		return nil, fmt.Errorf("the Workload %s cannot be read: %v", name, err)
	case one == nil:
		return nil, nil
	}
	return []queue.Owner{ownerOf(one)}, nil
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
	keep := ownerTime
	if object == nil {
		keep = absentTime
	}
	c.all[key] = cachedOwner{object, time.Now().Add(keep)}
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
	one := queue.Owner{
		APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: string(o.GetUID()), Annotations: o.GetAnnotations(),
		Deleting: o.GetDeletionTimestamp() != nil,
	}
	number := func(fields ...string) int64 {
		n, _, _ := unstructured.NestedInt64(o.Object, fields...)
		return n
	}
	switch one.Kind {
	case "Job":
		one.Size, one.Deadline = jobSize(o.Object, "spec"), number("spec", "activeDeadlineSeconds")
		one.Whole, one.End = jobWhole(o.Object, "spec"), jobEnd(o)
	case "JobSet":
		for _, r := range replicatedJobs(o) {
			one.Jobs = append(one.Jobs, r)
			one.Size += r.Replicas * r.Pods
			one.Whole += r.Replicas * r.Whole
		}
		state, _, _ := unstructured.NestedString(o.Object, "status", "terminalState")
		one.End = queue.OwnerEnd{Done: state != ""}
		if state != "Completed" {
			one.End.Status = 1
		}
	case "LeaderWorkerSet":
		one.Replicas = int(number("spec", "replicas"))
	case "PodGroup":
		one.Size = int(max(number("spec", "minMember"), number("spec", "schedulingPolicy", "gang", "minCount")))
	}
	return one
}

// jobEnd reads a Job's conditions. One that is about to be Complete or Failed makes no more pods, and neither does one that has its
// completions.
func jobEnd(o *unstructured.Unstructured) queue.OwnerEnd {
	succeeded, _, _ := unstructured.NestedInt64(o.Object, "status", "succeeded")
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range conditions {
		c, is := one.(map[string]any)
		if !is || c["status"] != "True" {
			continue
		}
		switch c["type"] {
		case "Complete", "SuccessCriteriaMet":
			return queue.OwnerEnd{Done: true}
		case "Failed", "FailureTarget":
			return queue.OwnerEnd{Done: true, Status: 1}
		}
	}
	return queue.OwnerEnd{Done: int(succeeded) >= jobWhole(o.Object, "spec")}
}

// jobWhole is how many pods that have ended well complete a Job. One of a work queue is enough, once the others have ended, too.
func jobWhole(object map[string]any, spec ...string) int {
	completions, found, _ := unstructured.NestedInt64(object, append(spec, "completions")...)
	if !found {
		completions = 1
	}
	return int(completions)
}

// jobSize is how many pods a Job has at once. Both of its numbers may be left out.
func jobSize(object map[string]any, spec ...string) int {
	parallelism, found, _ := unstructured.NestedInt64(object, append(spec, "parallelism")...)
	if !found {
		parallelism = 1
	}
	if completions, found, _ := unstructured.NestedInt64(object, append(spec, "completions")...); found {
		parallelism = min(parallelism, completions)
	}
	return int(parallelism)
}

// replicatedJobs are a JobSet's.
func replicatedJobs(o *unstructured.Unstructured) (all []queue.ReplicatedJob) {
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
		name, _, _ := unstructured.NestedString(j, "name")
		all = append(all, queue.ReplicatedJob{Name: name, Replicas: int(replicas), Pods: jobSize(j, "template", "spec"), Whole: jobWhole(j, "template", "spec")})
	}
	return all
}
