package podnames

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// TestHostNames: which names slurm.conf and slurmdbd.conf give to which roles.
func TestHostNames(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"slurm.conf": "ClusterName=c\nSlurmctldHost=Ctl-0(ctl)\nSlurmctldHost=ctl-1\nAccountingStorageHost=dbd\nAccountingStorageExternalHost=far:6820,near\nJobCompHost=jobs\n" +
			"SlurmctldParameters=enable_configless\nNodeName=n1 NodeHostname=h1 NodeAddr=a1\nInclude more.conf\n",
		"more.conf":     "AccountingStorageBackupHost=dbd-b\n",
		"slurmdbd.conf": "DbdHost=dbd\nDbdPort=6819\nStorageHost=mariadb\nStorageType=accounting_storage/mysql\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	h := confHosts{file: filepath.Join(dir, "slurm.conf")}
	h.read()
	assert.Equal(t, map[string][]role.Role{
		"ctl-0": {role.Slurmctld}, "ctl": {role.Slurmctld}, "ctl-1": {role.Slurmctld}, "dbd": {role.Slurmdbd}, "dbd-b": {role.Slurmdbd}, "far": {role.Slurmdbd}, "near": {role.Slurmdbd}, "jobs": nil,
	}, h.owners)
	d := confHosts{file: filepath.Join(dir, "slurmdbd.conf")}
	d.read()
	assert.Equal(t, map[string][]role.Role{"dbd": {role.Slurmdbd}, "mariadb": nil}, d.owners)

	assert.Equal(t, []string{"dbd", "mariadb"}, d.foreign())
	d.take(peers.Change{Put: []wire.Peer{{Name: "dbd", Role: "slurmdbd"}, {Name: "mariadb", Role: "slurmdbd"}}})
	assert.Equal(t, []string{"mariadb"}, d.foreign())
	d.take(peers.Change{Whole: true, Gone: []wire.Gone{{Name: "dbd"}}})
	assert.Equal(t, []string{"mariadb"}, d.foreign(), "another replica may not know of it yet")
	d.take(peers.Change{Gone: []wire.Gone{{Name: "dbd"}}})
	assert.Equal(t, []string{"dbd", "mariadb"}, d.foreign())

	require.NoError(t, os.Remove(d.file))
	d.read()
	assert.Len(t, d.owners, 2, "a file that is away says nothing")
}
