package kubecluster

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"strings"
	"text/template"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/node"
)

// What a cluster has that kubeadm or its cloud would have put there.
//
//go:embed addons.yaml
var addonsText string

var addons = template.Must(template.New("addons").Funcs(template.FuncMap{"base": path.Base}).Parse(addonsText))

// manifests are the addons for a cluster of nodes.
func manifests(nodes []string) (string, error) {
	var text strings.Builder
	if err := addons.Execute(&text, map[string]any{"Nodes": nodes, "Paths": node.LocalVolumes()}); err != nil {
		return "", fmt.Errorf("cannot write the addons: %v", err)
	}
	return text.String(), nil
}

func (b *Bed) addOn(ctx context.Context) error {
	text, err := manifests(b.Nodes())
	if err != nil {
		return err
	}
	return b.Apply(ctx, text)
}
