package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/imagecache"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/options"
)

// site is what plugstack.conf gives the plugin, as far as people's commands need it.
type site struct {
	store string
	options.Options
}

// readSite reads plugstack.conf where this machine's Slurm has it: beside SLURM_CONF, or as slurmd or sackd has fetched
// it. Without it, or with a line that the plugin would refuse, a node has its own images.
func readSite(getenv func(string) string) site {
	s := site{store: defaultStore}
	for _, dir := range []string{filepath.Dir(getenv("SLURM_CONF")), "/run/slurm/conf", "/etc/slurm"} {
		text, err := os.ReadFile(filepath.Join(dir, "plugstack.conf"))
		if err != nil || !filepath.IsAbs(dir) {
			continue
		}
		s.parse(string(text))
		break
	}
	return s
}

func (s *site) parse(text string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		at := slices.IndexFunc(fields, func(f string) bool { return filepath.Base(f) == "spank_slurmlet.so" })
		if at != 1 { // after required or optional
			continue
		}
		for _, argument := range fields[2:] {
			switch name, value, _ := strings.Cut(argument, "="); {
			case name == "store" && filepath.IsAbs(value):
				s.store = value
			case name == "image_dir" && options.CheckImageDir(value) == nil:
				s.ImageDir = value
			}
		}
	}
}

// images is the cache of the user who asks.
func (s *site) images() (imagecache.Cache, error) {
	dir, err := s.ImageDirOf(os.Getenv("HOME"), os.Getenv("USER"), os.Getuid())
	if dir == "" || err != nil {
		return imagecache.Of(s.store, os.Getuid(), 0), err
	}
	return imagecache.Cache{Dir: dir}, nil
}
