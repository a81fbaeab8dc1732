package imagecache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Known is what a registry said of a reference when it was asked last.
type Known struct {
	Reference string `json:"reference"`
	// Digest is the reference's own. For several platforms it is that of their index.
	Digest string `json:"digest"`
	// Image is the digest of this node's platform, by which the cache has the image.
	Image string `json:"image"`
	// Step is the step that asked last. Its other nodes that share the cache take the same digest, and ask nobody.
	Step string `json:"step,omitempty"`
}

func (c Cache) refs() string { return filepath.Join(c.Dir, "refs") }

// knownPath is by a hash, because a reference may be longer than a file's name.
func (c Cache) knownPath(reference string) string {
	sum := sha256.Sum256([]byte(reference))
	return filepath.Join(c.refs(), hex.EncodeToString(sum[:]))
}

// Recall is empty where the reference is not known, or its image is gone.
func (c Cache) Recall(reference string) Known {
	k := c.read(c.knownPath(reference))
	if k.Reference != reference {
		return Known{}
	}
	return k
}

// read is empty where there is no such image.
func (c Cache) read(path string) Known {
	text, err := os.ReadFile(path)
	var k Known
	if err != nil || json.Unmarshal(text, &k) != nil {
		return Known{}
	}
	if _, err := os.Lstat(c.Path(k.Image)); err != nil {
		return Known{}
	}
	return k
}

// Remember keeps what a registry has said.
func (c Cache) Remember(k Known) error {
	text, err := json.Marshal(k)
	if err == nil {
		err = os.MkdirAll(c.refs(), 0o700)
	}
	if err != nil {
		return fmt.Errorf("cannot remember an image's digest: %w", err)
	}
	// its own name, because two steps may remember at once
	f, err := os.CreateTemp(c.refs(), ".new-")
	if err != nil {
		return fmt.Errorf("cannot remember an image's digest: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if failed := f.Close(); err == nil {
		err = failed
	}
	if err == nil {
		err = os.Rename(f.Name(), c.knownPath(k.Reference))
	}
	if err != nil {
		return fmt.Errorf("cannot remember an image's digest: %w", err)
	}
	return nil
}

// Once has one of a step's nodes, which share the cache, do what has an image there and remembers it with the step. The
// others wait, and take the same digest. waits is called once where a node waits. Where the first fails, each of those
// that have waited does it for itself: nobody waits for many failures in turn.
func (c Cache) Once(ctx context.Context, reference, step string, waits func(), do func() (Known, error)) (Known, error) {
	if err := os.MkdirAll(c.refs(), 0o700); err != nil {
		return Known{}, fmt.Errorf("cannot remember an image's digest: %w", err)
	}
	for waited := false; ; {
		if last := c.Recall(reference); last.Step == step {
			return last, nil
		}
		lock, err := tryLock(c.knownPath(reference)+lockEnd, os.O_CREATE)
		if err != nil {
			return Known{}, fmt.Errorf("cannot ask for an image's digest: %w", err)
		}
		switch last := c.Recall(reference); {
		case lock == nil && !waited:
			waits()
			waited = true
		case lock == nil:
		case last.Step == step: // its holder has ended between two looks
			unlock(lock)
			return last, nil
		case waited:
			unlock(lock)
			return do()
		default:
			defer unlock(lock)
			return do()
		}
		select {
		case <-ctx.Done():
			return Known{}, ctx.Err()
		case <-time.After(betweenLooks):
		}
	}
}

// unlock lets the next one have a lock of tryLock's.
func unlock(lock *os.File) {
	_ = os.Remove(lock.Name())
	_ = lock.Close()
}

func (c Cache) allKnown() []Known {
	entries, _ := os.ReadDir(c.refs()) // without it, none is known
	var all []Known
	for _, e := range entries {
		if k := c.read(filepath.Join(c.refs(), e.Name())); k.Image != "" {
			all = append(all, k)
		}
	}
	return all
}

// writing is longer than a file of refs is written. What has no image after it is nobody's.
const writing = time.Minute

// forget removes what is known of images that are gone, and what a process that died has not written to its end.
func (c Cache) forget() {
	entries, _ := os.ReadDir(c.refs()) // without it, there is nothing to forget
	for _, e := range entries {
		path := filepath.Join(c.refs(), e.Name())
		info, err := e.Info()
		switch {
		case err != nil || time.Since(info.ModTime()) <= writing:
		case strings.HasSuffix(path, lockEnd):
			if lock, err := tryLock(path, 0); err == nil && lock != nil {
				unlock(lock)
			}
		case c.read(path).Image == "":
			_ = os.Remove(path) // it is tried again with the next image
		}
	}
}
