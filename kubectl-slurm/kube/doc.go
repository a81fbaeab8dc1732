// Package kube is what kubectl-slurm does with Kubernetes: it finds a cluster's pods by their labels, runs commands in
// them, and reads what their agents tell everybody. It has no rights but the caller's, and names the one that is missing.
package kube

import (
	"context"
	"fmt"

	authv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Client is a connection to a cluster of Kubernetes', and the namespace that the caller means.
type Client struct {
	api       kubernetes.Interface
	config    *rest.Config
	Namespace string
}

// NewClient makes one of a kubeconfig.
func NewClient(config *rest.Config, namespace string) (*Client, error) {
	config.QPS, config.Burst = 50, 100
	plain := rest.CopyConfig(config)
	plain.AcceptContentTypes, plain.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	api, err := kubernetes.NewForConfig(plain)
	if err != nil {
		return nil, fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	return &Client{api, config, namespace}, nil
}

// Right is what a request needs, in the words of kubectl auth can-i.
type Right struct {
	Verb, Resource, Subresource, Name string
	// Namespace is empty for what is in none.
	Namespace string
}

func (r Right) resource() string {
	if r.Subresource != "" {
		return r.Resource + "/" + r.Subresource
	}
	return r.Resource
}

// MissingRight is the error of a request that the API server has refused to the caller.
type MissingRight struct {
	Right
	// Said is what the API server has said.
	Said string
}

func (m *MissingRight) Error() string {
	where := "in the whole cluster"
	option := ""
	if m.Namespace != "" {
		where, option = "in namespace "+m.Namespace, " -n "+m.Namespace
	}
	return fmt.Sprintf("you may not %s %s %s (kubectl auth can-i %s %s%s): %s", m.Verb, m.resource(), where, m.Verb, m.resource(), option, m.Said)
}

// judge makes a MissingRight of an error that is one.
func judge(r Right, err error) error {
	if apierrors.IsForbidden(err) {
		return &MissingRight{r, err.Error()}
	}
	return err
}

// may asks whether the caller has a right. An error counts as one.
func (c *Client) may(ctx context.Context, r Right) bool {
	answer, err := c.api.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authv1.SelfSubjectAccessReview{
		Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authv1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Resource: r.Resource, Subresource: r.Subresource, Name: r.Name,
		}},
	}, metav1.CreateOptions{})
	return err != nil || answer.Status.Allowed
}
