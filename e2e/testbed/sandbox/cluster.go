package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
)

// Cluster says what the pods of a small Slurm cluster are. A test takes one and
// changes what it is about.
type Cluster struct {
	// Agent is slurmlet on the host.
	Agent string
	// Key is Slurm's secret (auth/slurm): 1024 random bytes.
	Key []byte
	// JWTKey signs the tokens of auth/jwt: 32 random bytes.
	JWTKey []byte
	// AuthorizedKey lets alice into the login pod (authorized_keys).
	AuthorizedKey []byte
	// SlurmConf and CgroupConf are slurmctld's configuration.
	SlurmConf, CgroupConf string
	// elastic is how many nodes Slurm itself may start.
	elastic int
}

// What the agents in the pods are told and tell.
const (
	Slurmctld     = "slurmctld"
	slurmctldPort = 6817
	login         = "login"
	nodePrefix    = "node-"
	gracePeriod   = "30s"
	// Workdir is one directory for the login pod and all nodes.
	Workdir = "/shared"
	// MaxNodes is as many as one machine bears.
	MaxNodes = 64
	// slurmUID is user slurm's in Debian's packages.
	slurmUID = 64030
	mebibyte = 1 << 20
	// guaranteed is the oom_score_adj of that QoS class.
	guaranteed = -997
)

// Cluster returns the pods for this sandbox. Its key is made once.
func (s *Sandbox) Cluster() (Cluster, error) {
	key, err := s.key()
	if err != nil {
		return Cluster{}, err
	}
	jwt, err := s.jwtKey()
	if err != nil {
		return Cluster{}, err
	}
	authorized, err := s.authorizedKey()
	if err != nil {
		return Cluster{}, err
	}
	c := Cluster{Agent: s.settings.Agent, Key: key, JWTKey: jwt, AuthorizedKey: authorized, SlurmConf: slurmConf, CgroupConf: cgroupConf}
	if s.settings.NoLimits {
		c.SlurmConf = withoutCgroups.Replace(c.SlurmConf)
		c.CgroupConf = "CgroupPlugin=disabled\n"
	} else {
		c.SlurmConf += forGuests
	}
	return c, nil
}

// Slurmctld runs slurmctld, with its state on a volume that outlives the pod.
func (c Cluster) Slurmctld() PodSpec {
	spec := c.pod(Slurmctld, Slurmctld)
	// Whoever uses scontrol there sees what slurmctld sees.
	spec.Env["SLURM_CONF"] = "/run/slurmlet/conf/slurm.conf"
	spec.Volumes[1].Files[jwtKey] = File{Data: c.JWTKey, Mode: 0o600}
	spec.Volumes[1].Files["slurm.conf"] = File{Data: []byte(c.SlurmConf)}
	spec.Volumes[1].Files["cgroup.conf"] = File{Data: []byte(c.CgroupConf)}
	spec.Volumes[2].UID, spec.Volumes[2].GID = slurmUID, slurmUID
	spec.Volumes = append(spec.Volumes, Volume{Name: "run-slurmctld", Path: "/run/slurmctld", UID: slurmUID, GID: slurmUID})
	spec.Volumes = append(spec.Volumes, Volume{Name: "state", Path: "/var/spool/slurmctld", Shared: true, Mode: 0o700, UID: slurmUID, GID: slurmUID})
	if c.elastic > 0 {
		spec.Env["SLURMLET_ELASTIC_SETS"] = elasticSets
		spec.Volumes = append(spec.Volumes, c.elasticVolume())
	}
	return spec
}

// Node is a compute node: even ones have 1 CPU and 512 MiB, odd ones 2 CPUs and
// 768 MiB.
func (c Cluster) Node(i int) PodSpec {
	name := nodePrefix + strconv.Itoa(i)
	if i%2 == 1 {
		return c.node(name, 2, 768*mebibyte)
	}
	return c.node(name, 1, 512*mebibyte)
}

func (c Cluster) node(name string, cpus float64, memory int64) PodSpec {
	spec := c.pod(name, "slurmd")
	spec.CPU, spec.Memory = cpus, memory
	// Limits and no requests: the kubelet takes it for Guaranteed.
	spec.OOMGroup, spec.OOMScoreAdj = true, guaranteed
	spec.Env["SLURMLET_SLURMCTLD"] = fmt.Sprintf("%s:%d", Slurmctld, slurmctldPort)
	spec.Env["SLURMLET_NODE_NAME"] = name
	spec.Env["SLURMLET_CPU_LIMIT"] = strconv.Itoa(int(spec.CPU * 1000))
	spec.Env["SLURMLET_MEMORY_LIMIT"] = strconv.FormatInt(spec.Memory, 10)
	spec.Volumes = append(spec.Volumes, shared(), Volume{Name: "spool", Path: "/var/spool/slurmd"}, podInfo())
	return spec
}

// PodInfo is a node's downward-API volume.
const PodInfo = "podinfo"

func podInfo() Volume {
	return Volume{Name: PodInfo, Path: "/etc/podinfo", Projected: true, Files: map[string]File{"labels": {}, "annotations": {}}}
}

// User is who works in the sandbox, AuthorizedKeys the login pod's volume of keys.
const (
	User           = "alice"
	AuthorizedKeys = "authorized-keys"
)

// Login is where users come in by ssh. Its host keys outlive the pod.
func (c Cluster) Login() PodSpec {
	spec := c.pod(login, login)
	spec.Env["SLURMLET_SLURMCTLD"] = fmt.Sprintf("%s:%d", Slurmctld, slurmctldPort)
	spec.Volumes[2] = Volume{Name: "host-keys", Path: "/var/lib/slurmlet/ssh", Shared: true, Mode: 0o700}
	spec.Volumes = append(spec.Volumes, shared(), c.AuthorizedKeysVolume())
	return spec
}

// AuthorizedKeysVolume is open to all, as a ConfigMap's directory is.
func (c Cluster) AuthorizedKeysVolume() Volume {
	return Volume{
		Name: AuthorizedKeys, Path: "/etc/slurmlet/authorized_keys", Projected: true, Mode: 0o777,
		Files: map[string]File{User: {Data: c.AuthorizedKey}},
	}
}

func (c Cluster) pod(name, role string) PodSpec {
	return PodSpec{
		Name: name, Role: role, Args: []string{agentPath, role}, Restart: "Always",
		Env: map[string]string{"SLURMLET_GRACE_PERIOD": gracePeriod},
		Volumes: []Volume{
			{Name: "slurmlet", Path: agentPath, HostPath: c.Agent},
			{Name: "etc", Path: "/etc/slurm", UID: slurmUID, GID: slurmUID, Files: map[string]File{"slurm.key": {Data: c.Key, Mode: 0o600}}},
			{Name: "run", Path: "/run/slurm"}, // of whom the daemon runs as, or it refuses
		},
	}
}

const agentPath = "/usr/local/bin/slurmlet"

func shared() Volume {
	return Volume{Name: "shared", Path: Workdir, Shared: true, Mode: 0o1777}
}

// key is kept beside the sandbox's own, so that a later Scale finds it.
func (s *Sandbox) key() ([]byte, error) { return secret(filepath.Join(s.dir, "slurm.key"), 1024) }

// secret reads random bytes, which it makes once.
func secret(path string, size int) ([]byte, error) {
	key, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = make([]byte, size)
	_, _ = rand.Read(key) // never fails
	if err := os.WriteFile(path, key, 0o600); err != nil {
		return nil, fmt.Errorf("cannot keep a key of Slurm's: %v", err)
	}
	return key, nil
}

// UserKey is the path of the private key that lets alice into the login pod.
func (s *Sandbox) UserKey() string { return filepath.Join(s.dir, "id_ed25519") }

// authorizedKey is the line that goes with UserKey, which is made once.
func (s *Sandbox) authorizedKey() ([]byte, error) {
	if _, err := os.Stat(s.UserKey()); errors.Is(err, fs.ErrNotExist) {
		if err := remote.MakeKey(s.UserKey()); err != nil {
			return nil, err
		}
	}
	key, err := remote.ReadKey(s.UserKey())
	if err != nil {
		return nil, err
	}
	return ssh.MarshalAuthorizedKey(key.PublicKey()), nil
}

// nodes lists the nodes' numbers that there are.
func (s *Sandbox) nodes(ctx context.Context) (map[int]bool, error) {
	pods, err := s.Status(ctx)
	if err != nil {
		return nil, err
	}
	out := map[int]bool{}
	for _, p := range pods {
		if i, err := strconv.Atoi(strings.TrimPrefix(p.Name, nodePrefix)); err == nil {
			out[i] = true
		}
	}
	return out, nil
}

// slurm.conf(5). No log files: the agent reads what the daemons write.
const slurmConf = `ClusterName=sandbox
SlurmctldHost=slurmctld
SlurmUser=slurm
AuthType=auth/slurm
AuthInfo=use_client_ids
CredType=cred/slurm
SlurmctldParameters=enable_configless
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
MaxNodeCount=512
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
GresTypes=gpu
MpiDefault=none
PrologEpilogTimeout=60
PartitionName=all Nodes=ALL Default=yes State=UP
`

// forGuests is for clusters with limits, because most machines run these in User-Mode Linux. All takes many times longer
// there: slurmctld does not always answer within Slurm's 10 s when others want the machine's CPUs, too.
const forGuests = "MessageTimeout=30\n"

// withoutCgroups has Slurm find and count the processes of a job without cgroups.
var withoutCgroups = strings.NewReplacer(
	"proctrack/cgroup", "proctrack/linuxproc", "task/cgroup", "task/none", "jobacct_gather/cgroup", "jobacct_gather/linux",
)

// cgroup.conf(5). The pod's quota bounds the CPUs, so ConstrainCores is off:
// pods on one machine would all be pinned to its first CPUs. The agent prepares
// what IgnoreSystemd=yes is for; with it, slurmd 24.11 cannot reconfigure in a
// container (decision 13).
const cgroupConf = `CgroupPlugin=cgroup/v2
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
ConstrainCores=no
`
