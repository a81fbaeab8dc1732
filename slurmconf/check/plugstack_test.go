package check

import (
	"fmt"
	"path"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// TestPlugstack: what Slurm takes, and what then has a job in a container run on the node's own root, or not at all.
func TestPlugstack(t *testing.T) {
	const contained, tmpfs = "PrologFlags=contain\n", "JobContainerType=job_container/tmpfs\n"
	for _, c := range []struct{ conf, stack, want string }{
		{"", "required spank_slurmlet.so writable=1", ""},
		{"", "optional lua.so\nrequired /usr/lib/slurm/spank_pyxis.so", ""},
		{"", "optional spank_slurmlet.so", "1:10: warning: spank_slurmlet.so is optional"},
		{"", "required spank_slurmlet.so\nrequired /opt/spank_pyxis.so store=x", "2:10: warning: spank_pyxis.so and spank_slurmlet.so"},
		{"", "required spank_slurmlet.so private_dirs=/tmp", "1:10: warning: private_dirs and private_processes have each job fail"},
		{"", "required spank_slurmlet.so private_processes=1", "1:10: warning: private_dirs and private_processes have each job fail"},
		{"", "required spank_slurmlet.so private_processes=0", ""},
		{contained, "required spank_slurmlet.so private_dirs=/tmp", ""},
		{"PrologFlags=X11\n", "required spank_slurmlet.so private_dirs=/var/tmp,/tmp", "5:13: warning: srun --x11 shows nothing"},
		{"PrologFlags=X11\nTmpFS=/tmp/x/\n", "required spank_slurmlet.so private_dirs=/tmp", "5:13: warning: srun --x11 shows nothing"},
		{"PrologFlags=X11\nTmpFS=/tmpx\n", "required spank_slurmlet.so private_dirs=/tmp", ""},
		{"PrologFlags=X11\nX11Parameters=home_xauthority\n", "required spank_slurmlet.so private_dirs=/tmp", ""},
		{"PrologFlags=X11\n", "required spank_slurmlet.so private_dirs=/dev/shm", ""},
		{tmpfs, "required spank_slurmlet.so", ""},
		{contained + tmpfs, "required spank_slurmlet.so private_dirs=/tmp", "6:18: warning: JobContainerType is job_container/tmpfs, and"},
		{contained + "NamespaceType=namespace/linux\n", "required spank_slurmlet.so private_dirs=/tmp", "6:15: warning: NamespaceType"},
	} {
		files := fstest.MapFS{
			"etc/slurm/slurm.conf":     {Data: []byte("ClusterName=t\nSlurmctldHost=ctl\nNodeName=n\nPartitionName=p Nodes=n\n" + c.conf)},
			"etc/slurm/plugstack.conf": {Data: []byte(c.stack + "\n")},
		}
		set, _ := slurmconf.Read(slurmconf.In(files, "/etc/slurm"))
		findings, err := Set(set, Options{})
		require.NoError(t, err)
		var said []string
		for _, f := range findings {
			if f.Rule == "plugstack" {
				said = append(said, fmt.Sprintf("%s: %s: %s", f.Position, f.Severity, f.What))
			}
		}
		if c.want == "" {
			assert.Empty(t, said, c.stack)
		} else if assert.Len(t, said, 1, c.stack) {
			assert.Contains(t, said[0], c.want)
		}
	}
}

// TestContainers: a runtime of slurmlet's needs more lines of oci.conf, and the plugin refuses bundles where there is none.
func TestContainers(t *testing.T) {
	const run = "RunTimeRun=\"exec slurmlet-container oci run --bundle='%b' --environment=%e --step=%s\"\n"
	const rest = "IgnoreFileConfigJson=true\nCreateEnvFile=null\nContainerPath=/x/%j.%s/%t\n"
	for _, c := range []struct{ oci, stack, want string }{
		{"", "optional lua.so", "slurm.conf: info: there is no oci.conf"},
		{"", "required /opt/slurmlet/spank_slurmlet.so", "slurm.conf: info: there is no oci.conf: nodes refuse srun --container by spank_slurmlet.so"},
		{run + rest, "", ""},
		{"RunTimeRun=\"crun run\"\n", "", ""},
		{run + "IgnoreFileConfigJson=true\nCreateEnvFile=null\n", "", "oci.conf:1:12: warning: RunTimeRun is slurmlet-container oci run, and the tasks"},
		{run + "IgnoreFileConfigJson=true\nContainerPath=/x/%t\n", "", "oci.conf:1:12: warning: RunTimeRun is slurmlet-container oci run, and each task fails"},
		{run + "CreateEnvFile=null\nContainerPath=/x/%t\n", "", "oci.conf:1:12: warning: RunTimeRun is slurmlet-container oci run, and Slurm reads"},
	} {
		files := fstest.MapFS{
			"etc/slurm/slurm.conf": {Data: []byte("ClusterName=t\nSlurmctldHost=ctl\nNodeName=n\nPartitionName=p Nodes=n\n")},
		}
		for name, text := range map[string]string{"oci.conf": c.oci, "plugstack.conf": c.stack} {
			if text != "" {
				files["etc/slurm/"+name] = &fstest.MapFile{Data: []byte(text + "\n")}
			}
		}
		set, _ := slurmconf.Read(slurmconf.In(files, "/etc/slurm"))
		findings, err := Set(set, Options{SlurmctldRoot: fstest.MapFS{}})
		require.NoError(t, err)
		said := ""
		for _, f := range findings {
			if f.Rule == "containers" {
				said += fmt.Sprintf("%s: %s: %s", path.Base(fmt.Sprint(f.Position)), f.Severity, f.What)
			}
		}
		if c.want == "" {
			assert.Empty(t, said, c.oci)
		} else {
			assert.Contains(t, said, c.want, c.oci)
		}
	}
}
