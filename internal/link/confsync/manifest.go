package confsync

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// manifest is the hashes of the files that nodes get of a configuration, by the
// hashes of their names, and the hash of it all.
type manifest struct {
	hash  string
	files map[string]string
	// restart is not nil when slurmd is to be restarted for it, within so long.
	restart *time.Duration
	// nodes is how many agents follow, as far as was announced.
	nodes int
	// start is that of the slurmctld that has announced it, empty where its agent is older.
	start string
}

func newManifest(files map[string][]byte) manifest {
	m := manifest{files: map[string]string{}}
	for name, data := range files {
		m.files[confset.Digest([]byte(name))] = digest(name, data)
	}
	m.hash = confset.Digest([]byte(strings.Join(m.lines(), "\n")))
	return m
}

func (m manifest) lines() []string {
	var lines []string
	for name, data := range m.files {
		lines = append(lines, name+" "+data)
	}
	slices.Sort(lines)
	return lines
}

// String is the form in which it is sent: the hash, and a line for each file.
func (m manifest) String() string {
	return strings.Join(append([]string{m.hash}, m.lines()...), "\n") + "\n"
}

func parseManifest(text string) (manifest, error) {
	lines := strings.Fields(text)
	if len(lines)%2 == 0 {
		return manifest{}, fmt.Errorf("cannot read the configuration's hashes: want an odd number of words, not %d", len(lines))
	}
	m := manifest{hash: lines[0], files: map[string]string{}}
	for pair := range slices.Chunk(lines[1:], 2) {
		m.files[pair[0]] = pair[1]
	}
	return m, nil
}

// digest is of what matters to a node.
func digest(name string, data []byte) string {
	if name == confset.Main {
		data = confset.WithoutFirstJobID(data)
	}
	return confset.Digest(data)
}

// differs says whether a directory of files is of another configuration. What is
// in one of them only does not count: which files are sent is for Slurm's
// version to say.
func (m manifest) differs(files map[string][]byte) bool {
	for name, data := range files {
		want, sent := m.files[confset.Digest([]byte(name))]
		if sent && want != digest(name, data) {
			return true
		}
	}
	return false
}

// servedFiles are those that slurmctld sends to slurmd, in any of its versions
// (src/common/fetch_config.c), but for included ones and scripts.
var servedFiles = []string{
	"acct_gather.conf", "cgroup.conf", "cli_filter.lua", "gres.conf", "helpers.conf", "job_container.conf", "mpi.conf",
	"namespace.yaml", "oci.conf", "plugstack.conf", "scrun.lua", "slurm.conf", "topology.conf", "topology.yaml",
}

// served reads what slurmctld sends of the configuration at dir, and how many nodes
// there may be by it.
func served(dir string) (files map[string][]byte, nodes int) {
	set, _ := slurmconf.Read(slurmconf.Dir(dir))
	names := slices.Clone(servedFiles)
	for _, f := range set.Files {
		if f.Kind != slurmconf.SlurmdbdConf && !filepath.IsAbs(f.Name) {
			names = append(names, f.Name)
		}
	}
	return confset.Contents(dir, names), mostNodes(set.Conf(slurmconf.SlurmConf))
}
