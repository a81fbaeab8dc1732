package client

import (
	"context"
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// This file stands in the place of slurm-client's own, which starts a cluster with docker compose. The specs use these
// names.
var (
	ctx    context.Context
	cancel context.CancelFunc

	restapiServer, slurmJwt = os.Getenv("SLURM_REST"), os.Getenv("SLURM_JWT")
)

func TestClient(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Client Suite")
}

var _ = BeforeSuite(func() { ctx, cancel = context.WithCancel(context.Background()) })

var _ = AfterSuite(func() { cancel() })
