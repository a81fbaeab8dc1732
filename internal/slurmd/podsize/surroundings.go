package podsize

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// surroundings are what jobs with GPUs or RDMA need of a container besides the devices.
type surroundings struct {
	gpus, rdma bool
	// sharedMemory is the size of /dev/shm in bytes, 0 where it is not known.
	sharedMemory uint64
	// lockedMemory is how much a process may lock, in bytes (RLIMIT_MEMLOCK).
	lockedMemory uint64
}

// enoughSharedMemory is for one job with a GPU; the runtime gives 64 MiB.
const enoughSharedMemory = 1 << 30

// look finds them below root, "/" in a container.
func look(root string, gpus bool) surroundings {
	s := surroundings{gpus: gpus, lockedMemory: unix.RLIM_INFINITY}
	verbs, _ := filepath.Glob(filepath.Join(root, "dev/infiniband/uverbs*")) // the pattern is right
	s.rdma = len(verbs) > 0
	var shm unix.Statfs_t
	if unix.Statfs(filepath.Join(root, "dev/shm"), &shm) == nil {
		s.sharedMemory = shm.Blocks * uint64(shm.Bsize)
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil {
		s.lockedMemory = limit.Cur
	}
	return s
}

const mib = 1 << 20

// notes say what is too little.
func (s surroundings) notes() (all []string) {
	if (s.gpus || s.rdma) && s.sharedMemory > 0 && s.sharedMemory < enoughSharedMemory {
		all = append(all,
			fmt.Sprintf("/dev/shm has %d MiB for all jobs, and programs with GPUs or RDMA share memory there (NCCL, MPI, PyTorch): "+
				"mount a larger one (the chart: nodeSets.<set>.sharedMemory)", s.sharedMemory/mib))
	}
	if s.rdma && s.lockedMemory != unix.RLIM_INFINITY {
		all = append(all,
			fmt.Sprintf("a process may lock %d KiB of memory, and RDMA locks all that it sends from: have the runtime set no limit "+
				"(LimitMEMLOCK=infinity in containerd's systemd unit), and set "+
				"PropagateResourceLimitsExcept=MEMLOCK in slurm.conf", s.lockedMemory/1024))
	}
	return all
}
