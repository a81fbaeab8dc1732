package reconfig

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
)

// readSources reads the sources, with the elastic sets.
func (r *Reloader) readSources() (*confset.Set, error) {
	set, err := confset.Read(r.Sources)
	if err != nil {
		return nil, err
	}
	return r.withElastic(set)
}

// Read reads what the sources hold now.
func (r *Reloader) Read() conf.Revision {
	set, err := r.readSources()
	if r.Delivered != nil {
		r.Delivered(r.sourceDigest())
	}
	return conf.Revision{Set: set, Err: errors.Join(r.CopyKeys(), err), At: time.Now()}
}

// sourceDigest is that of the source with slurm.conf; empty if it cannot be read.
func (r *Reloader) sourceDigest() string {
	dir := r.Sources[0]
	for _, one := range r.Sources {
		if _, err := os.Stat(filepath.Join(one, confset.Main)); err == nil {
			dir = one
			break
		}
	}
	texts, err := confset.Texts(dir)
	if err != nil {
		return "" // the set's reader reports it
	}
	return confset.TextsDigest(texts)
}

// read posts what the sources hold now.
func (r *Reloader) read(post func(lifecycle.Event)) {
	r.reading.Lock()
	defer r.reading.Unlock()
	post(r.Read())
}

func (r *Reloader) readForced(post func(lifecycle.Event)) conf.Revision {
	r.reading.Lock()
	defer r.reading.Unlock()
	revision := r.Read()
	revision.Forced, revision.Request = true, int(r.requests.Add(1))
	post(revision)
	return revision
}

// Reread reads the sources, because the elastic sets have changed.
func (r *Reloader) Reread(post func(lifecycle.Event)) { r.read(post) }
