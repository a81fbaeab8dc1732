package reconfig

import (
	"context"
	"errors"
	"os"
	"strconv"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// complete adds what the agent writes into a set that is staged in dir.
func (r *Reloader) complete(dir *os.Root) error {
	return errors.Join(r.addDefaults(dir), r.addFirstJobID(dir))
}

// addFirstJobID keeps slurmctld from giving ids again that it has forgotten, also where the agent adds no defaults.
func (r *Reloader) addFirstJobID(dir *os.Root) error {
	if r.Saved == nil {
		return nil
	}
	id := r.Saved.FirstID()
	if id == 0 {
		return nil
	}
	return appendTo(dir, confset.Main, confset.FirstJobID(id))
}

// placeFirst makes a set the live one that slurmctld is about to be started with. Before that the agent takes what
// slurmctld has saved.
func (r *Reloader) placeFirst(ctx context.Context, set *confset.Set, staged string) error {
	if r.Saved == nil {
		return r.place(set, staged)
	}
	var err error
	if staged == "" {
		if staged, err = r.stage(set); err != nil {
			return err
		}
	}
	anew, err := r.takeState(ctx, staged)
	if anew || err != nil {
		r.liveSet.Drop(staged) // it was made before FirstJobId was known
		staged = ""
	}
	if err != nil {
		return err
	}
	return r.place(set, staged)
}

// takeState is where one slurmctld follows another: it returns when no other agent has StateSaveLocation, and what is
// saved there is ready for slurmctld's start. Until then the container has no slurmctld, and it is not Ready. anew says
// that FirstJobId has changed by that, so slurm.conf is to be staged again. What a second slurmctld would need besides is
// in the doc of package savedstate.
func (r *Reloader) takeState(ctx context.Context, staged string) (anew bool, err error) {
	files, _ := slurmconf.Read(slurmconf.Dir(staged), slurmconf.SlurmConf)
	conf := files.Conf(slurmconf.SlurmConf)
	dir, _ := conf.Value("StateSaveLocation")
	before := r.Saved.FirstID()
	first, err := r.Saved.Prepare(ctx, dir, r.slurmBuild(ctx, false).version, idOf(conf, "FirstJobId"), idOf(conf, "MaxJobId"))
	return first != before, err
}

// idOf is a job's id that a key gives, 0 for none: Slurm's parser reports what is no number.
func idOf(conf *slurmconf.Conf, key string) uint32 {
	value, _ := conf.Value(key)
	id, _ := strconv.ParseUint(value, 10, 32)
	return uint32(id)
}

// stage writes a set beside the live one, with the agent's defaults in it.
func (r *Reloader) stage(set *confset.Set) (string, error) {
	return r.stageIn(&r.liveSet, set)
}

func (r *Reloader) stageIn(store *confset.Store, set *confset.Set) (string, error) {
	return store.Stage(set, r.complete)
}

// place makes a set the live one; staged is empty for a set that is not staged yet.
func (r *Reloader) place(set *confset.Set, staged string) error {
	if staged == "" {
		var err error
		if staged, err = r.stage(set); err != nil {
			return err
		}
	}
	return r.liveSet.Swap(staged)
}
