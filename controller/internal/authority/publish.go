package authority

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Publish keeps a ConfigMap with the bundle in each of namespaces, and in each namespace that has one of
// before, until ctx ends. more is told when there are more namespaces.
func (a *Authority) Publish(ctx context.Context, namespaces func() []string, more <-chan struct{}) {
	if !cache.WaitForCacheSync(ctx.Done(), a.published.HasSynced) {
		return
	}
	changed := a.Changed()
	for {
		wait := time.Hour
		if bundle := a.Bundle(); len(bundle) > 0 && !a.publishAll(ctx, namespaces(), string(bundle)) {
			wait = pause
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-more:
		case <-changed:
		case <-a.drifted:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// publishAll writes the bundle into the namespaces that lack it, and says whether all of them have it.
func (a *Authority) publishAll(ctx context.Context, namespaces []string, bundle string) (whole bool) {
	wanted := map[string]bool{}
	for _, namespace := range namespaces {
		wanted[namespace] = true
	}
	for _, object := range a.published.List() {
		m := object.(*corev1.ConfigMap)
		if m.Labels["app.kubernetes.io/managed-by"] == managed()["app.kubernetes.io/managed-by"] {
			wanted[m.Namespace] = true
		}
		if m.Data[BundleKey] == bundle {
			delete(wanted, m.Namespace)
		}
	}
	whole = true
	for _, namespace := range slices.Sorted(maps.Keys(wanted)) {
		if err := a.publish(ctx, namespace, bundle); err != nil {
			if ctx.Err() != nil {
				return false
			}
			a.Log.Warn("cannot publish the certificate authority", "namespace", namespace, slog.Any("error", err))
			whole = false
		}
	}
	return whole
}

// publish applies the ConfigMap: a rule for "create" can name it then, which it cannot for a POST.
func (a *Authority) publish(ctx context.Context, namespace, bundle string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	wanted := applycorev1.ConfigMap(Name, namespace).WithLabels(managed()).WithData(map[string]string{BundleKey: bundle})
	_, err := a.API.CoreV1().ConfigMaps(namespace).Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "slurmlet-controller", Force: true})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // the namespace ends
	}
	return err
}
