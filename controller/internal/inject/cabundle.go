package inject

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Bundle is what the API server must trust to ask this webhook.
type Bundle interface {
	// Bundle are certificates as PEM; empty while there are none.
	Bundle() []byte
	// Changed is told when there are others.
	Changed() <-chan struct{}
}

const (
	// requestTimeout is how long one request to Kubernetes may take, and pause what follows one that failed.
	requestTimeout, pause = 10 * time.Second, 2 * time.Second
)

// KeepBundle keeps the bundle in the MutatingWebhookConfiguration of this name until ctx ends. It asks
// Kubernetes for this one object alone, and writes nothing else in it. Where there is none, it waits for one.
func KeepBundle(ctx context.Context, api kubernetes.Interface, name string, of Bundle, log *slog.Logger) error {
	one := informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	})).Admissionregistration().V1().MutatingWebhookConfigurations().Informer()
	seen := make(chan struct{}, 1)
	look := func(any) {
		select {
		case seen <- struct{}{}:
		default: // it knows already
		}
	}
	if _, err := one.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, now any) { look(now) }}); err != nil {
		return fmt.Errorf("cannot watch the webhook's configuration: %w", err)
	}
	changed := of.Changed()
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		one.RunWithContext(ctx)
	}()
	defer func() { <-watching }()
	for {
		var again <-chan time.Time
		if err := write(ctx, api, one.GetStore(), name, of.Bundle()); err != nil && ctx.Err() == nil {
			log.Warn("cannot write the certificates into the webhook's configuration", "name", name, slog.Any("error", err))
			again = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-seen:
		case <-changed:
		case <-again:
		}
	}
}

// write patches the webhooks that have another bundle.
func write(ctx context.Context, api kubernetes.Interface, store cache.Store, name string, bundle []byte) error {
	object, there, err := store.GetByKey(name)
	if err != nil || !there || len(bundle) == 0 {
		return err
	}
	type webhook struct {
		Name         string                                      `json:"name"`
		ClientConfig admissionregistrationv1.WebhookClientConfig `json:"clientConfig"`
	}
	var stale []webhook
	for _, w := range object.(*admissionregistrationv1.MutatingWebhookConfiguration).Webhooks {
		if !bytes.Equal(w.ClientConfig.CABundle, bundle) {
			stale = append(stale, webhook{w.Name, admissionregistrationv1.WebhookClientConfig{CABundle: bundle}})
		}
	}
	if len(stale) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"webhooks": stale})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = api.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "slurmlet-controller"})
	return err
}
