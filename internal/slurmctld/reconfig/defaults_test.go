package reconfig

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
	confcheck "github.com/slurmlet/slurmlet/slurmconf/check"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

// A volume's files may have no permission to write, and an agent that is not
// root has no way around that.
func TestDefaultsAreAddedToAFileWithAVolumesMode(t *testing.T) {
	source, store := t.TempDir(), confset.Store{Dir: t.TempDir(), Name: "conf", UID: os.Geteuid(), GID: os.Getegid()}
	require.NoError(t, os.WriteFile(filepath.Join(source, "slurm.conf"), []byte("ClusterName=a\nSlurmctldHost=h\n"), 0o440))
	set, err := confset.Read([]string{source})
	require.NoError(t, err)
	if os.Geteuid() == 0 {
		store.UID = nobody
		require.NoError(t, os.Chmod(filepath.Dir(store.Dir), 0o755)) //nolint:gosec // t.TempDir keeps others out
		require.NoError(t, os.Chown(store.Dir, nobody, -1))
	}
	o := Options{Defaults: true, SlurmUser: "slurm", StateDir: "/state"}
	var dir string
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and nobody else gets its user
		if os.Geteuid() == 0 {
			_, _ = unix.SetfsuidRetUid(nobody)
		}
		var err error
		dir, err = store.Stage(set, o.addDefaults)
		failed <- err
	}()
	require.NoError(t, <-failed)
	info, err := os.Stat(filepath.Join(dir, "slurm.conf"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o440), info.Mode().Perm())
	text, err := os.ReadFile(filepath.Join(dir, "slurm.conf"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "\nSlurmUser=slurm\n")
}

// TestDefaultsFit: a default is not added where Slurm would refuse it beside the user's own values.
func TestDefaultsFit(t *testing.T) {
	const start = "ClusterName=c\nSlurmctldHost=h\n"
	small := []string{"TreeWidth"} // Slurm's own is right
	for _, c := range []struct {
		name, own string
		without   []string
	}{
		{"nothing of its own", "", small},
		{"no dynamic nodes", "SelectType=select/linear\nNodeName=n[1-4]\n", append([]string{"MaxNodeCount", "SelectType", "SelectTypeParameters"}, small...)},
		{"the same value", "SelectType=select/cons_tres\n", append([]string{"SelectType"}, small...)},
		{"munge", "AuthType=auth/munge\n", append([]string{"AuthType", "AuthInfo", "CredType"}, small...)},
		{"more nodes than a default of ours", "NodeName=n[1-5000]\n", []string{"MaxNodeCount"}},
		{"a large cluster", "MaxNodeCount=10000\n", []string{"MaxNodeCount"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "slurm.conf")
			require.NoError(t, os.WriteFile(path, []byte(start+c.own), 0o644))
			o := Options{Defaults: true, SlurmUser: "slurm", StateDir: "/state"}
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			require.NoError(t, o.addDefaults(root))
			set, findings := slurmconf.Read(slurmconf.Dir(dir), slurmconf.SlurmConf)
			require.NoError(t, findings.Err())
			findings, err = confcheck.Set(set, confcheck.Options{})
			require.NoError(t, err)
			require.NoError(t, findings.Err())
			for _, d := range defaults {
				added := len(set.Conf(slurmconf.SlurmConf).All(d.key)) > 0 && !strings.Contains(start+c.own, "\n"+d.key+"=")
				assert.Equal(t, !slices.Contains(c.without, d.key), added, d.key)
			}
		})
	}
}

// TestStateIsFound: the state of a volume that another agent, or an operator, has filled is gone on with.
func TestStateIsFound(t *testing.T) {
	o := Options{StateDir: t.TempDir()}
	own := filepath.Join(o.StateDir, "state")
	assert.Equal(t, own, o.stateSaveLocation())
	require.NoError(t, os.Mkdir(own, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(own, "clustername"), nil, 0o600))
	assert.Equal(t, own, o.stateSaveLocation())
	require.NoError(t, os.WriteFile(filepath.Join(o.StateDir, "clustername"), nil, 0o600))
	assert.Equal(t, o.StateDir, o.stateSaveLocation())
}

// TestDefaultsBySize: what a cluster's size asks for is added, and the check has nothing against it
// on any version.
func TestDefaultsBySize(t *testing.T) {
	for _, c := range []struct {
		own                            string
		parameters, treeWidth, timeout string
	}{
		{"", "enable_configless,conmgr_max_connections=512", "", "30"},
		{"MaxNodeCount=500\n", "enable_configless,conmgr_max_connections=512", "", "30"},
		{"MaxNodeCount=4368\n", "enable_configless,conmgr_max_connections=512", "", "30"},
		{"MaxNodeCount=4369\n", "enable_configless,conmgr_max_connections=1024", "17", "30"},
		{"MaxNodeCount=10000\n", "enable_configless,conmgr_max_connections=1024", "22", "30"},
		{"MaxNodeCount=10000\nTreeWidth=50\n", "enable_configless,conmgr_max_connections=1024", "50", "30"},
		{"MaxNodeCount=65536\n", "enable_configless,conmgr_max_connections=1024", "40", "30"},
		{"MaxNodeCount=lots\n", "enable_configless,conmgr_max_connections=512", "", "30"},
		{"MessageTimeout=20\n", "enable_configless,conmgr_max_connections=512", "", "20"},
		{"NodeName=n[1-5000]\n", "enable_configless,conmgr_max_connections=1024", "17", "30"},
	} {
		t.Run(strings.TrimSpace(c.own), func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte("ClusterName=c\nSlurmctldHost=h\n"+c.own), 0o644))
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			require.NoError(t, Options{Defaults: true, SlurmUser: "slurm", StateDir: "/state"}.addDefaults(root))
			set, findings := slurmconf.Read(slurmconf.Dir(dir), slurmconf.SlurmConf)
			require.NoError(t, findings.Err())
			for key, want := range map[string]string{"SlurmctldParameters": c.parameters, "TreeWidth": c.treeWidth, "MessageTimeout": c.timeout} {
				have, _ := set.Conf(slurmconf.SlurmConf).Get(key)
				assert.Equal(t, want, have.Value, key)
			}
			for _, version := range keys.Versions {
				findings, err := confcheck.Set(set, confcheck.Options{Version: version})
				require.NoError(t, err)
				for _, f := range findings {
					assert.NotEqual(t, "many-nodes", f.Rule, "%s: %s", version, f)
				}
			}
		})
	}
}

// TestDefaultsOfElasticSets: they are there where sets are, the user's own values stay, and the check has
// nothing against them on any version.
func TestDefaultsOfElasticSets(t *testing.T) {
	gpu := ElasticSet{Name: "gpu", Nodes: "c-gpu-[0-9]", Features: []string{"a100", "gpu"}}
	warm := ElasticSet{Name: "warm", Nodes: "c-warm-[0-3]", Min: 2, Features: []string{"warm"}}
	const programs = "SuspendProgram ResumeProgram ResumeFailProgram PrologSlurmctld"
	for _, c := range []struct {
		name, own string
		sets      []ElasticSet
		want      map[string]string
	}{
		{"no sets yet", "", []ElasticSet{}, map[string]string{
			"ResumeProgram": "/run/x/programs/resume", "SuspendProgram": "/run/x/programs/suspend", "ResumeFailProgram": "/run/x/programs/resume-failed", "PrologSlurmctld": "/run/x/programs/wait-nodes",
			"ResumeTimeout": "600", "SuspendTimeout": "120", "ResumeRate": "0", "SuspendRate": "0", "SuspendTime": "900000000", "ReturnToService": "2", "SuspendExcNodes": "", "TreeWidth": "",
			"SlurmctldParameters": "enable_configless,conmgr_max_connections=512,power_save_interval=0", "SchedulerParameters": "requeue_delay=5,requeue_on_resume_failure",
		}},
		{"a minimum", "", []ElasticSet{gpu, warm}, map[string]string{"SuspendExcNodes": "c-warm-[0-3]:2"}},
		{
			"a minimum of names in several ranges, beside other nodes", "NodeName=old[1-2,5],new[1,3] State=UNKNOWN\n",
			[]ElasticSet{{Name: "warm", Nodes: "c-warm-[0-1,8-9],d-[0-3],e", Min: 7}, {Name: "cold", Nodes: "f-[0,2]"}, {Name: "one", Nodes: "g-[0,2]", Min: 1}},
			map[string]string{"SuspendExcNodes": "new[1],new[3],old[1-2],old[5],c-warm-[0-1]:2,c-warm-[8-9]:2,d-[0-3]:3,g-[0]:1"},
		},
		{
			"other node sets", "NodeSet=cpu Feature=cpu\nNodeSet=gpu Feature=gpu\nNodeSet=fast Feature=a100\nNodeSet=some Nodes=c-gpu-[7-8]\nNodeSet=old Nodes=old[1-2]\nNodeName=old[1-2] State=UNKNOWN\nNodeName=cloud[1-2] State=CLOUD\n",
			[]ElasticSet{gpu},
			map[string]string{"SuspendExcNodes": "cpu,old,old[1-2]"},
		},
		{"values of their own", "ResumeTimeout=60\nPrologSlurmctld=/opt/p\nSuspendExcNodes=x\nSlurmctldParameters=enable_configless\nSchedulerParameters=bf_interval=5\n", []ElasticSet{warm}, map[string]string{
			"ResumeTimeout": "60", "PrologSlurmctld": "/opt/p", "SuspendExcNodes": "x", "SlurmctldParameters": "enable_configless", "SchedulerParameters": "bf_interval=5", "SuspendTimeout": "120",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			text, err := json.Marshal(c.sets)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, elasticFile), text, 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte("ClusterName=c\nSlurmctldHost=h\n"+c.own), 0o644))
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			require.NoError(t, Options{Defaults: true, SlurmUser: "slurm", StateDir: "/state", RunDir: "/run/x"}.addDefaults(root))
			set, findings := slurmconf.Read(slurmconf.Dir(dir), slurmconf.SlurmConf)
			require.NoError(t, findings.Err())
			conf := set.Conf(slurmconf.SlurmConf)
			for key, want := range c.want {
				have, _ := conf.Get(key)
				assert.Equal(t, want, have.Value, key)
			}
			for key := range strings.FieldsSeq(programs) {
				assert.Len(t, conf.All(key), 1, key)
			}
			for _, version := range keys.Versions {
				findings, err := confcheck.Set(set, confcheck.Options{Version: version})
				require.NoError(t, err)
				require.NoError(t, findings.Err(), version)
			}
		})
	}
}

// TestCostsOfElasticSets: what the user's own values lead to is told only where there are sets.
func TestCostsOfElasticSets(t *testing.T) {
	const own = "ClusterName=c\nSlurmctldHost=h\nSlurmctldParameters=enable_configless\nPrologSlurmctld=/opt/p\nResumeProgram=/opt/r\n"
	for _, c := range []struct {
		name, more string
		elastic    bool
		want       int
	}{
		{"no sets", "", false, 0},
		{"sets", "", true, 3},
		{"wait-nodes beside another", "PrologSlurmctld=/run/slurmlet/programs/wait-nodes\n", true, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(own+c.more), 0o644))
			r := &Reloader{Options: Options{Sources: []string{dir}}}
			if c.elastic {
				r.Elastic = func() []ElasticSet { return []ElasticSet{} }
			}
			set, err := r.readSources()
			require.NoError(t, err)
			conf, _ := slurmconf.Read(slurmconf.Dir(dir), slurmconf.SlurmConf)
			assert.Len(t, costs(set, conf.Conf(slurmconf.SlurmConf)), c.want)
		})
	}
}

// TestElasticSetsAreOfTheConfiguration: another set is another configuration, and a file of that name is
// refused.
func TestElasticSetsAreOfTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte("ClusterName=c\n"), 0o644))
	sets := []ElasticSet{{Name: "a", Nodes: "a-0"}}
	r := &Reloader{Options: Options{Sources: []string{dir}, Elastic: func() []ElasticSet { return sets }}}
	first, err := r.readSources()
	require.NoError(t, err)
	again, err := r.readSources()
	require.NoError(t, err)
	assert.True(t, first.Same(again))
	sets[0].Min = 1
	other, err := r.readSources()
	require.NoError(t, err)
	assert.False(t, first.Same(other))
	require.NoError(t, os.WriteFile(filepath.Join(dir, elasticFile), []byte("[]"), 0o644))
	_, err = r.readSources()
	require.ErrorContains(t, err, elasticFile+": want another name")
}
