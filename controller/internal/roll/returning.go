package roll

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// nodes is what makes a StatefulSet's pods again under their names. cluster is empty where these are no nodes, and
// once somebody has deleted the set.
type nodes struct {
	cluster string
	first   int
}

// nodesOf reads the labels of the pods, or the annotations from which the webhook makes them.
func nodesOf(from *appsv1.StatefulSet) nodes {
	labels, annotations := from.Spec.Template.Labels, from.Spec.Template.Annotations
	of := cmp.Or(labels[pods.RoleLabel], annotations[wellknown.Inject])
	label := cmp.Or(labels[pods.ClusterLabel], annotations[pods.ClusterLabel])
	if of != string(role.Slurmd) || label == "" || from.DeletionTimestamp != nil {
		return nodes{}
	}
	n := nodes{cluster: from.Namespace + "/" + label}
	if from.Spec.Ordinals != nil {
		n.first = int(from.Spec.Ordinals.Start)
	}
	return n
}

const byCluster = "cluster"

// watchNodes indexes StatefulSets by their nodes' clusters, and notes which of these change.
func (r *Roller) watchNodes() error {
	err := r.sets[0].AddIndexers(cache.Indexers{byCluster: func(object any) ([]string, error) {
		if s, is := object.(*set); is && s.nodes.cluster != "" {
			return []string{s.nodes.cluster}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return fmt.Errorf("cannot index Kubernetes' StatefulSets: %w", err)
	}
	changed := func(objects ...any) {
		for _, object := range objects {
			if gone, is := object.(cache.DeletedFinalStateUnknown); is {
				object = gone.Obj
			}
			if s, is := object.(*set); is && s.nodes.cluster != "" && r.SetsChanged != nil {
				r.SetsChanged(s.nodes.cluster)
			}
		}
	}
	r.nodesKnown, err = r.sets[0].AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { changed(now) },
		UpdateFunc: func(last, now any) { changed(last, now) },
		DeleteFunc: func(last any) { changed(last) },
	})
	if err != nil {
		return fmt.Errorf("cannot watch Kubernetes' StatefulSets: %w", err)
	}
	return nil
}

// tellOnceKnown has all clusters told when the StatefulSets are known.
func (r *Roller) tellOnceKnown(ctx context.Context) {
	if cache.WaitForCacheSync(ctx.Done(), r.nodesKnown) && r.SetsChanged != nil {
		r.SetsChanged()
	}
}

// Returning are the nodes of a cluster whose pods StatefulSets make again; nil while they are not known.
func (r *Roller) Returning(cluster string) *wire.Returning {
	if !r.nodesKnown() {
		return nil
	}
	objects, err := r.sets[0].ByIndex(byCluster, cluster)
	if err != nil {
		return nil
	}
	all := &wire.Returning{}
	for _, object := range objects {
		s := object.(*set)
		all.StatefulSets = append(all.StatefulSets, wire.StatefulSet{Name: s.Name, First: s.nodes.first, Replicas: s.want})
	}
	slices.SortFunc(all.StatefulSets, func(a, b wire.StatefulSet) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
