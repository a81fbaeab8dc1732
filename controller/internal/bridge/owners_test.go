package bridge

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
		"a Job without numbers":          {kind: "Job", want: queue.Owner{Size: 1}},
		"a work queue":                   {kind: "Job", spec: fields{"parallelism": int64(4)}, want: queue.Owner{Size: 4}},
		"fewer completions":              {kind: "Job", spec: fields{"parallelism": int64(4), "completions": int64(2)}, want: queue.Owner{Size: 2}},
		"completions alone":              {kind: "Job", spec: fields{"completions": int64(5), "activeDeadlineSeconds": int64(60)}, want: queue.Owner{Size: 1, Deadline: 60}},
		"a suspended Job":                {kind: "Job", spec: fields{"parallelism": int64(0)}, want: queue.Owner{}},
		"a Job that has failed":          {kind: "Job", status: fields{"conditions": ended("Failed")}, want: queue.Owner{Size: 1, End: queue.OwnerEnd{Done: true, Status: 1}}},
		"a Job that is complete":         {kind: "Job", status: fields{"conditions": ended("Complete")}, want: queue.Owner{Size: 1, End: queue.OwnerEnd{Done: true}}},
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
			want: queue.Owner{Size: 7, Jobs: []queue.ReplicatedJob{{Name: "driver", Replicas: 1, Pods: 1}, {Name: "workers", Replicas: 2, Pods: 3}}, End: queue.OwnerEnd{Status: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.APIVersion, c.want.Kind, c.want.Name, c.want.UID = "g/v1", c.kind, "n", "u"
			o := &unstructured.Unstructured{Object: fields{"apiVersion": "g/v1", "kind": c.kind, "metadata": fields{"name": "n", "uid": "u"}, "spec": c.spec, "status": c.status}}
			assert.Equal(t, c.want, ownerOf(o))
		})
	}
}
