package bridge

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/slurmlet/slurmlet/controller/internal/queue"
)

// TestOwnerOf: how many pods an owner has at once, and how it has ended.
func TestOwnerOf(t *testing.T) {
	type fields = map[string]any
	ended := func(condition string) []any { return []any{fields{"type": condition, "status": "True"}} }
	for name, c := range map[string]struct {
		kind         string
		spec, status fields
		want         queue.Owner
	}{
		"a Job without numbers":          {kind: "Job", want: queue.Owner{Size: 1, Whole: 1}},
		"a work queue":                   {kind: "Job", spec: fields{"parallelism": int64(4)}, want: queue.Owner{Size: 4, Whole: 1}},
		"fewer completions":              {kind: "Job", spec: fields{"parallelism": int64(4), "completions": int64(2)}, want: queue.Owner{Size: 2, Whole: 2}},
		"completions alone":              {kind: "Job", spec: fields{"completions": int64(5), "activeDeadlineSeconds": int64(60)}, want: queue.Owner{Size: 1, Whole: 5, Deadline: 60}},
		"a suspended Job":                {kind: "Job", spec: fields{"parallelism": int64(0)}, want: queue.Owner{Whole: 1}},
		"a Job that has failed":          {kind: "Job", status: fields{"conditions": ended("Failed")}, want: queue.Owner{Size: 1, Whole: 1, End: queue.OwnerEnd{Done: true, Status: 1}}},
		"a Job that fails soon":          {kind: "Job", status: fields{"conditions": ended("FailureTarget")}, want: queue.Owner{Size: 1, Whole: 1, End: queue.OwnerEnd{Done: true, Status: 1}}},
		"a Job that is complete soon":    {kind: "Job", status: fields{"conditions": ended("SuccessCriteriaMet")}, want: queue.Owner{Size: 1, Whole: 1, End: queue.OwnerEnd{Done: true}}},
		"a Job between two waves":        {kind: "Job", spec: fields{"parallelism": int64(2), "completions": int64(4)}, status: fields{"succeeded": int64(2)}, want: queue.Owner{Size: 2, Whole: 4}},
		"a Job with all its completions": {kind: "Job", spec: fields{"parallelism": int64(2), "completions": int64(4)}, status: fields{"succeeded": int64(4)}, want: queue.Owner{Size: 2, Whole: 4, End: queue.OwnerEnd{Done: true}}},
		"a Job that is complete":         {kind: "Job", status: fields{"conditions": ended("Complete")}, want: queue.Owner{Size: 1, Whole: 1, End: queue.OwnerEnd{Done: true}}},
		"a PodGroup of scheduling.x-k8s": {kind: "PodGroup", spec: fields{"minMember": int64(3)}, want: queue.Owner{Size: 3}},
		"a PodGroup of Kubernetes": {
			kind: "PodGroup", spec: fields{"schedulingPolicy": fields{"gang": fields{"minCount": int64(3)}}}, want: queue.Owner{Size: 3},
		},
		"a LeaderWorkerSet": {kind: "LeaderWorkerSet", spec: fields{"replicas": int64(2)}, want: queue.Owner{Replicas: 2}},
		"a JobSet": {
			kind: "JobSet",
			spec: fields{"replicatedJobs": []any{
				fields{"name": "driver"},
				fields{"name": "workers", "replicas": int64(2), "template": fields{"spec": fields{"parallelism": int64(4), "completions": int64(3)}}},
			}},
			want: queue.Owner{Size: 7, Whole: 7, Jobs: []queue.ReplicatedJob{{Name: "driver", Replicas: 1, Pods: 1, Whole: 1}, {Name: "workers", Replicas: 2, Pods: 3, Whole: 3}}, End: queue.OwnerEnd{Status: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.APIVersion, c.want.Kind, c.want.Name, c.want.UID = "g/v1", c.kind, "n", "u"
			o := &unstructured.Unstructured{Object: fields{"apiVersion": "g/v1", "kind": c.kind, "metadata": fields{"name": "n", "uid": "u"}, "spec": c.spec, "status": c.status}}
			assert.Equal(t, c.want, ownerOf(o))
		})
	}
}

// TestOwnersEnd: a group has ended when nobody makes pods of it any more, and nobody who could is silent.
func TestOwnersEnd(t *testing.T) {
	type fields = map[string]any
	object := func(version, kind, name string, status fields) runtime.Object {
		return &unstructured.Unstructured{Object: fields{"apiVersion": version, "kind": kind, "metadata": fields{"name": name, "namespace": "team", "uid": name + "-uid"}, "status": status}}
	}
	goes := object("scheduling.x-k8s.io/v1alpha1", "PodGroup", "goes", nil)
	goes.(*unstructured.Unstructured).SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	all := []runtime.Object{
		object("batch/v1", "Job", "runs", nil),
		object("batch/v1", "Job", "complete", fields{"conditions": []any{fields{"type": "Complete", "status": "True"}}}),
		object("batch/v1", "Job", "failed", fields{"conditions": []any{fields{"type": "Failed", "status": "True"}}}),
		object("scheduling.x-k8s.io/v1alpha1", "PodGroup", "stays", nil), goes,
	}
	jobs := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	groups := schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
	of := func(names ...string) (o owners) {
		for _, name := range names {
			o.add(watched{jobs, name, name + "-uid"}, false)
		}
		return o
	}
	others := of("complete")
	others.add(watched{}, true)
	var many owners
	for i := range mostWatched + 1 {
		many.add(watched{jobs, fmt.Sprint("gone-", i), "x"}, false)
	}
	ended := func(status int) *queue.OwnerEnd { return &queue.OwnerEnd{Done: true, Status: status} }
	for name, c := range map[string]struct {
		owners   owners
		podGroup string
		want     *queue.OwnerEnd
	}{
		"a Job that runs":                        {of("runs"), "", nil},
		"a Job that is complete":                 {of("complete"), "", ended(0)},
		"a Job that is gone":                     {of("nobody"), "", ended(1)},
		"a PodGroup of a Job that runs":          {of("complete", "runs"), "stays", nil},
		"a PodGroup of Jobs that have ended":     {of("complete", "failed"), "stays", ended(1)},
		"a PodGroup of a Job that is complete":   {of("complete"), "stays", ended(0)},
		"a PodGroup of pods without owners":      {owners{}, "stays", ended(0)},
		"a PodGroup with an owner that is alien": {others, "stays", nil},
		"a PodGroup with too many owners":        {many, "stays", nil},
		"a PodGroup that goes":                   {of("runs"), "goes", ended(1)},
		"a PodGroup that is gone":                {of("runs"), "nobody", ended(1)},
	} {
		t.Run(name, func(t *testing.T) {
			cache := newOwnerCache(fake.NewSimpleDynamicClient(runtime.NewScheme(), all...))
			var podGroup watched
			if c.podGroup != "" {
				podGroup = watched{groups, c.podGroup, c.podGroup + "-uid"}
			}
			end, is := cache.end(t.Context(), "team", c.owners, 0, podGroup)
			assert.Equal(t, c.want != nil, is)
			if c.want != nil {
				assert.Equal(t, *c.want, end)
			}
		})
	}
	t.Run("nobody answers", func(t *testing.T) {
		api := fake.NewSimpleDynamicClient(runtime.NewScheme(), all...)
		api.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("it is away") })
		_, is := newOwnerCache(api).end(t.Context(), "team", of("complete"), 0, watched{groups, "stays", "stays-uid"})
		assert.False(t, is)
	})
}
