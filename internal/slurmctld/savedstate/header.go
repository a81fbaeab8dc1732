package savedstate

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"time"
)

// header is what is known of slurmctld's last save.
type header struct {
	// at is when slurmctld wrote the file, to the second. It is zero when no file could be read.
	at time.Time
	// sequence is the last id that slurmctld had given to a job then.
	sequence uint32
	// protocol says which Slurm has written the file.
	protocol protocol
}

// jobStates are the files that slurmctld reads, in this order. A slurmctld that is killed while it saves may leave the
// second alone.
var jobStates = []string{"job_state", "job_state.old"}

// readHeader reads the beginning of the file that slurmctld will read.
func readHeader(root *os.Root) (header, error) {
	var last error
	for _, name := range jobStates {
		f, err := root.Open(name)
		if err != nil {
			last = err
			continue
		}
		h, err := parseHeader(f)
		_ = f.Close() // it was read only
		if err == nil {
			return h, nil
		}
		last = fmt.Errorf("cannot read %s: %w", name, err)
	}
	return header{}, last
}

// jobStateVersion begins job_state of every version of Slurm (dump_all_job_state in src/slurmctld/job_mgr.c). A length,
// the protocol's version, the time and the last id are around it.
const jobStateVersion = "PROTOCOL_VERSION\x00"

func parseHeader(from io.Reader) (header, error) {
	var fixed struct {
		Length   uint32
		Version  [len(jobStateVersion)]byte
		Protocol [2]uint8
		Time     int64
		Sequence uint32
	}
	if err := binary.Read(from, binary.BigEndian, &fixed); err != nil {
		return header{}, err
	}
	if int(fixed.Length) != len(jobStateVersion) || string(fixed.Version[:]) != jobStateVersion {
		return header{}, fmt.Errorf("want %q at its beginning", jobStateVersion)
	}
	return header{at: time.Unix(fixed.Time, 0), sequence: fixed.Sequence, protocol: protocol(fixed.Protocol[0])}, nil
}
