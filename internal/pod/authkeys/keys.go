// Package authkeys has auth/slurm's keys for a daemon: a copy of those that are mounted, which changes only where the rest
// of the cluster can follow.
package authkeys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/kit/keyring"
	"github.com/slurmlet/slurmlet/internal/pod/copies"
)

// Keys are auth/slurm's keys as the daemon has them. Nil ones are those of a daemon that needs none, or has munged.
type Keys struct {
	copy   copies.Dir
	owners []uint32
	// lock is held while the copy is brought up to date.
	lock    sync.Mutex
	keyring *keyring.Ring
	// current is the ring for others than the copy's goroutine.
	current atomic.Pointer[keyring.Ring]
	since   time.Time
	status  atomic.Pointer[KeysStatus]
}

// KeysStatus tells of auth/slurm's keys, and nothing that is secret.
type KeysStatus struct {
	// Signs is the name of the key that signs, Accepts are all.
	Signs   string      `json:"signs"`
	Accepts []KeyStatus `json:"accepts"`
	// Since is when they were put in place; a daemon that is younger has read them.
	Since time.Time `json:"since"`
	// Refused is why the mounted keys are others.
	Refused string `json:"refused,omitempty"`
}

// KeyStatus is a key by its name: kid in slurm.jwks, or slurm.key.
type KeyStatus struct {
	Name    string     `json:"name"`
	Expires *time.Time `json:"expires,omitempty"`
}

const mungeSocket = "/run/munge/munge.socket.2"

// Find returns the first directory with auth/slurm's keys, which must be
// nobody else's; "" where there is munged in their place.
func Find(dirs []string, owners []uint32) (string, error) {
	var looked []string
	for _, dir := range dirs {
		found := false
		for _, name := range []string{keyring.KeyFile, keyring.JWKSFile} {
			path := filepath.Join(dir, name)
			looked = append(looked, path)
			err := checkKeyFile(path, owners)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
			found = found || err == nil
		}
		if found {
			return dir, nil
		}
	}
	if _, err := os.Stat(mungeSocket); err == nil {
		return "", nil
	}
	return "",
		fmt.Errorf(
			"cannot find the cluster's key: there is neither %s (auth/slurm), nor munged's socket %s (auth/munge)",
			strings.Join(looked, " nor "), mungeSocket)
}

// checkKeyFile: Slurm refuses what others may read, and warns of another owner.
// Whoever has the key is root in the whole cluster.
func checkKeyFile(path string, owners []uint32) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("cannot use the cluster's key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return fmt.Errorf(
			"cannot use the cluster's key: %s has mode %04o, so that every user of this container can have it; "+
				"want 0600, or for a Secret's volume defaultMode: 0400", path, mode)
	}
	if stat, is := info.Sys().(*syscall.Stat_t); is && !slices.Contains(owners, stat.Uid) {
		return fmt.Errorf("cannot use the cluster's key: %s belongs to uid %d; want root or SlurmUser, uid %d", path,
			stat.Uid, owners[len(owners)-1])
	}
	return nil
}

// Owners are root, the agent, the daemon's user, and SlurmUser.
func Owners(uid int, slurmUser string) []uint32 {
	owners := []uint32{0, uint32(os.Geteuid()), uint32(uid)}
	if u, err := user.Lookup(slurmUser); err == nil {
		if uid, err := strconv.ParseUint(u.Uid, 10, 32); err == nil {
			owners = append(owners, uint32(uid))
		}
	}
	return owners
}

// New makes a copy in to that the user has, without its keys. from is what Find has found.
func New(from, to string, uid, gid int, owners []uint32) *Keys {
	if from == "" {
		return nil
	}
	k := &Keys{owners: owners}
	k.copy = copies.Dir{From: from, To: to, Mode: 0o600, UID: uid, GID: gid, Wanted: keyring.IsKeyFile, Check: k.judge}
	return k
}

// Take copies the mounted keys, if the daemon can be given them.
func (k *Keys) Take() error {
	if k == nil {
		return nil
	}
	k.lock.Lock()
	defer k.lock.Unlock()
	if _, err := k.copy.Sync(); err != nil {
		return &exitcode.Fault{Code: exitcode.Config, Err: err}
	}
	return nil
}

// Watch keeps the copy true until done is closed. changed is called after each change, with why keys are refused.
func (k *Keys) Watch(done <-chan struct{}, changed func(error)) error {
	if k == nil {
		return nil
	}
	return k.copy.Watch(done, func(_ []string, err error) { changed(err) })
}

// judge refuses keys with which the daemon would not be understood by those that
// have the former ones.
func (k *Keys) judge(files map[string][]byte) error {
	ring, err := keyring.Parse(files)
	for name := range files {
		err = errors.Join(err, checkKeyFile(filepath.Join(k.copy.From, name), k.owners))
	}
	if err == nil {
		if refusal := ring.Follows(k.keyring, time.Now()); refusal != nil {
			err = fmt.Errorf("cannot take the keys in %s: %w", k.copy.From, refusal)
		}
	}
	if err == nil && !reflect.DeepEqual(ring, k.keyring) {
		k.keyring, k.since = ring, time.Now()
		k.current.Store(ring)
	}
	k.publish(err)
	return err
}

func (k *Keys) publish(refusal error) {
	if k.keyring == nil {
		return
	}
	s := &KeysStatus{Signs: keyName(k.keyring.Signer()), Since: k.since}
	for _, key := range k.keyring.Keys {
		one := KeyStatus{Name: keyName(key)}
		if !key.Expires.IsZero() {
			one.Expires = &key.Expires
		}
		s.Accepts = append(s.Accepts, one)
	}
	if refusal != nil {
		s.Refused = refusal.Error()
	}
	k.status.Store(s)
}

func keyName(k keyring.Key) string {
	if k.Name == "" {
		return keyring.KeyFile
	}
	return k.Name
}

// Env points the daemon to the copy.
func (k *Keys) Env() []string {
	if k == nil {
		return nil
	}
	return []string{
		"SLURM_SACK_KEY=" + filepath.Join(k.copy.To, keyring.KeyFile),
		"SLURM_SACK_JWKS=" + filepath.Join(k.copy.To, keyring.JWKSFile),
	}
}

// FetchEnv is for daemons that get their configuration from slurmctld: before they
// have it, those of 24.11 look for keys nowhere but beside where slurm.conf would be.
func (k *Keys) FetchEnv() []string {
	if k == nil {
		return nil
	}
	return []string{"SLURM_CONF=" + filepath.Join(k.copy.To, "slurm.conf")}
}

// Ring is what the daemon has, nil for no keys.
func (k *Keys) Ring() *keyring.Ring {
	if k == nil {
		return nil
	}
	return k.current.Load()
}

// Status is nil for no keys.
func (k *Keys) Status() *KeysStatus {
	if k == nil {
		return nil
	}
	return k.status.Load()
}

// FirstExpiry is when the first of the keys expires, zero if none does.
func (s *KeysStatus) FirstExpiry() (first time.Time) {
	for _, key := range s.Accepts {
		if key.Expires != nil && (first.IsZero() || key.Expires.Before(first)) {
			first = *key.Expires
		}
	}
	return first
}

// Rows writes the status for people.
func (s *KeysStatus) Rows(row func(name, format string, args ...any)) {
	var all []string
	for _, k := range s.Accepts {
		text := k.Name
		if k.Expires != nil {
			text += " until " + k.Expires.Format(time.RFC3339)
		}
		all = append(all, text)
	}
	row("Keys", "signs with %s, accepts %s, since %s", s.Signs, strings.Join(all, ", "), s.Since.Format(time.RFC3339))
	if s.Refused != "" {
		row("Refused", "%s", s.Refused)
	}
}
