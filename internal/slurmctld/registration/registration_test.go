package registration

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// registry is a slurmdbd with these clusters, or with an error, and the slurmctld
// of another one, which registers as it reconfigures.
type registry struct {
	slurm.Client
	clusters      []string
	err           error
	reconfigured  int
	asked         []string
	reconfigureBy error
}

func (r *registry) Registered(_ context.Context, cluster string) (bool, error) {
	r.asked = append(r.asked, cluster)
	return slices.Contains(r.clusters, cluster), r.err
}

func (r *registry) Reconfigure(context.Context) error {
	r.reconfigured++
	return r.reconfigureBy
}

func TestAClusterIsRegistered(t *testing.T) {
	now := time.Unix(1000, 0)
	soon, later := now.Add(15*time.Second), now.Add(10*time.Minute)
	seen := registration{seen: 7}
	const accounted = "ClusterName=c1\nAccountingStorageType=accounting_storage/slurmdbd\n"
	for name, c := range map[string]struct {
		conf         string
		before       registration
		slurmdbd     registry
		want         registration
		reconfigured int
		said         bool
	}{
		"without accounting nobody is asked":      {conf: "ClusterName=c1\n", slurmdbd: registry{err: errors.New("asked")}, want: registration{known: 7}},
		"it has just begun, and may do it itself": {conf: accounted, before: registration{seen: 6}, slurmdbd: registry{err: errors.New("asked")}, want: registration{seen: 7, next: now.Add(5 * time.Second)}},
		"it is not time yet":                      {conf: accounted, before: registration{seen: 7, next: soon}, slurmdbd: registry{err: errors.New("asked")}, want: registration{seen: 7, next: soon}},
		"slurmdbd knows it":                       {conf: accounted, before: seen, slurmdbd: registry{clusters: []string{"c0", "c1"}}, want: registration{known: 7}},
		"slurmdbd knows others":                   {conf: accounted, before: seen, slurmdbd: registry{clusters: []string{"c0"}}, want: registration{seen: 7, next: soon, retry: later}, reconfigured: 1, said: true},
		"no answer is neither":                    {conf: accounted, before: seen, slurmdbd: registry{err: errors.New("connection refused")}, want: registration{seen: 7, next: soon}},
		"it has reconfigured for it just now":     {conf: accounted, before: registration{seen: 7, retry: later}, want: registration{seen: 7, next: soon, retry: later}},
		"and it has helped":                       {conf: accounted, before: registration{seen: 7, retry: later}, slurmdbd: registry{clusters: []string{"c1"}}, want: registration{known: 7}},
		"slurmctld does not follow: tried later":  {conf: accounted, before: seen, slurmdbd: registry{reconfigureBy: errors.New("busy")}, want: registration{seen: 7, next: soon, retry: later}, reconfigured: 1, said: true},
		"a configuration that cannot be read now": {before: seen, want: registration{seen: 7, next: soon}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.conf != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, confset.Main), []byte(c.conf), 0o644))
			}
			said := false
			r := &Keeper{
				Live: func() string { return dir }, Client: &c.slurmdbd, Reconfigure: c.slurmdbd.Reconfigure,
				Log: func(slog.Level, string, ...slog.Attr) { said = true }, registration: c.before,
			}
			r.look(7, now)
			assert.Equal(t, c.want, r.registration)
			assert.Equal(t, c.reconfigured, c.slurmdbd.reconfigured)
			assert.Equal(t, c.said, said)
			for _, asked := range c.slurmdbd.asked {
				assert.Equal(t, "c1", asked)
			}
		})
	}
}
