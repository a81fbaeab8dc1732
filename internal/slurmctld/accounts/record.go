package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/slurmctld/accounts/planner"
)

// readRecord reads the record of a cluster, which is empty where there is none. One of another cluster is an error: its
// names would be taken for this one's.
func readRecord(path, cluster string) (planner.Record, error) {
	r := planner.Record{Cluster: cluster, Made: map[string]*planner.Made{}}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	switch {
	case err != nil:
		return r, fmt.Errorf("cannot read the record of what was made: %w", err)
	case r.Cluster != cluster:
		return r, fmt.Errorf("the record %s is of the cluster %s, not of %s", path, r.Cluster, cluster)
	case r.Made == nil:
		return r, fmt.Errorf("the record %s names nothing that was made", path)
	}
	return r, nil
}

// writeRecord replaces the record at once.
func writeRecord(path string, r planner.Record) error {
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	next := path + ".next"
	file, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot write the record of what is made: %w", err)
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return fmt.Errorf("cannot write the record of what is made: %w", err)
	}
	return nil
}

// lock has one Apply at a time work with a record, and none beside a reconfigure. It waits for the other one.
func lock(ctx context.Context, record string, limit time.Duration) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(record), 0o755); err != nil {
		return nil, fmt.Errorf("cannot keep a record of what is made: %w", err)
	}
	file, err := os.OpenFile(record+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot keep a record of what is made: %w", err)
	}
	for until := time.Now().Add(limit); ; {
		if err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(until) || ctx.Err() != nil {
			file.Close()
			return nil, fmt.Errorf("another apply works with the record %s, or slurmctld is being reconfigured: %w", record, err)
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
		}
	}
}

const (
	// lockPause is the time between two tries of the lock.
	lockPause = 50 * time.Millisecond
	// lockLimit is how long an Apply waits for another one, or for a reconfigure.
	lockLimit = 2 * time.Minute
	// holdLimit is how long a reconfigure waits for an Apply: 10,000 new users take longer.
	holdLimit = time.Minute
)

// Hold keeps accounts from being applied until release is called, and waits for an Apply that is under way. slurmdbd tells
// slurmctld of each change and waits for its answer, and a slurmctld that reads its configuration waits for slurmdbd: 24.11
// then answers for minutes no more.
func Hold(ctx context.Context, record string) (release func(), err error) {
	return lock(ctx, record, holdLimit)
}
