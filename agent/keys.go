package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
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

	"github.com/slurmlet/slurmlet/internal/kit/keyring"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/pod/copies"
)

// clusterKeys are auth/slurm's keys as the daemon has them: a copy of those that are
// mounted, which changes only where the rest of the cluster can follow.
type clusterKeys struct {
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

// slurmdKeyPause is how long slurmd goes on with its former keys. slurmctld, which may
// get the new ones at the same time, has every slurmd reconfigure itself then, and
// loses no launch only where they all answer.
const slurmdKeyPause = 15 * time.Second

const mungeSocket = "/run/munge/munge.socket.2"

// keyDirs is where the cluster's key may be.
func (c Config) keyDirs() []string {
	if partOf(c.Role).reloads {
		return c.ConfSources
	}
	return []string{c.ConfDir}
}

// findKeys returns the first directory with auth/slurm's keys, which must be
// nobody else's; "" where there is munged in their place.
func findKeys(dirs []string, owners []uint32) (string, error) {
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
	return "", fmt.Errorf("cannot find the cluster's key: there is neither %s (auth/slurm), nor munged's socket %s (auth/munge)", strings.Join(looked, " nor "), mungeSocket)
}

// checkKeyFile: Slurm refuses what others may read, and warns of another owner.
// Whoever has the key is root in the whole cluster.
func checkKeyFile(path string, owners []uint32) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("cannot use the cluster's key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return fmt.Errorf("cannot use the cluster's key: %s has mode %04o, so that every user of this container can have it; want 0600, or for a Secret's volume defaultMode: 0400", path, mode)
	}
	if stat, is := info.Sys().(*syscall.Stat_t); is && !slices.Contains(owners, stat.Uid) {
		return fmt.Errorf("cannot use the cluster's key: %s belongs to uid %d; want root or SlurmUser, uid %d", path, stat.Uid, owners[len(owners)-1])
	}
	return nil
}

// keyOwners are root, the agent, the daemon's user, and SlurmUser.
func (d daemon) keyOwners() []uint32 {
	owners := []uint32{0, uint32(os.Geteuid()), uint32(d.uid())}
	if u, err := user.Lookup(d.config.SlurmUser); err == nil {
		if uid, err := strconv.ParseUint(u.Uid, 10, 32); err == nil {
			owners = append(owners, uint32(uid))
		}
	}
	return owners
}

// openKeys makes the copy, and keeps it true. slurmctld's is brought up to date when
// its configuration is read.
func (a *Agent) openKeys() error {
	if a.daemon.keys == "" {
		return nil
	}
	a.clusterKeys.owners = a.daemon.keyOwners()
	a.clusterKeys.copy = copies.Dir{
		From: a.daemon.keys, To: filepath.Join(a.Config.RunDir, "keys"), Mode: 0o600, UID: a.daemon.uid(), GID: a.daemon.gid(),
		Wanted: keyring.IsKeyFile, Check: a.clusterKeys.judge,
	}
	if err := a.takeKeys(); err != nil {
		return &Fault{Code: ExitConfig, Err: err}
	}
	if a.life.Reloads {
		return nil
	}
	return a.clusterKeys.copy.Watch(a.over, func(changed []string, err error) {
		if err != nil {
			a.log(slog.LevelError, "the changed keys are refused; the last ones stay", slog.Any("error", err))
			return
		}
		a.log(slog.LevelInfo, "the cluster's keys have changed", slog.Any("keys", a.clusterKeys.status.Load()))
		read := supervisor.FilesChanged{Restart: !a.daemon.announces, Since: time.Now()}
		if a.Config.Role == Slurmd {
			time.AfterFunc(slurmdKeyPause, func() { a.post(read) })
			return
		}
		a.post(read)
	})
}

// takeKeys copies the mounted keys, if the daemon can be given them.
func (a *Agent) takeKeys() error {
	if a.daemon.keys == "" {
		return nil
	}
	a.clusterKeys.lock.Lock()
	defer a.clusterKeys.lock.Unlock()
	_, err := a.clusterKeys.copy.Sync()
	return err
}

// judge refuses keys with which the daemon would not be understood by those that
// have the former ones.
func (k *clusterKeys) judge(files map[string][]byte) error {
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

func (k *clusterKeys) publish(refusal error) {
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

// keyEnv points the daemon to the copy.
func (a *Agent) keyEnv() []string {
	if a.daemon.keys == "" {
		return nil
	}
	return []string{"SLURM_SACK_KEY=" + filepath.Join(a.clusterKeys.copy.To, keyring.KeyFile), "SLURM_SACK_JWKS=" + filepath.Join(a.clusterKeys.copy.To, keyring.JWKSFile)}
}

// fetchEnv is for daemons that get their configuration from slurmctld: before they
// have it, those of 24.11 look for keys nowhere but beside where slurm.conf would be.
func (a *Agent) fetchEnv() []string {
	if a.daemon.keys == "" {
		return nil
	}
	return []string{"SLURM_CONF=" + filepath.Join(a.clusterKeys.copy.To, "slurm.conf")}
}

func (s *KeysStatus) rows(row func(name, format string, args ...any)) {
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
