// Package crds has go.mod pin the module that has the CustomResourceDefinition of scheduling.x-k8s.io's PodGroups.
package crds

import _ "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
