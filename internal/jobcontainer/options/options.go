// Package options reads what a user asks of a job's container: pyxis' options and variables, with their meanings. It
// is pure: it looks at no file, because it runs where a job is submitted as well as on the job's node.
package options

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/imageref"
)

// Options are what a user asks of a container, with the site's defaults.
type Options struct {
	// Image is the root file system: a path, or an image of a registry (IsPath), as the user gave it. It is empty where
	// Name alone says which.
	Image string
	// Mounts are made in this order.
	Mounts []Mount
	// Workdir is empty for the image's own.
	Workdir string
	// Name is that of a container whose files stay on the node; empty: nothing stays. NameMode is for it alone.
	Name     string
	NameMode NameMode
	// Save is the path of a file to which the container is saved when the node's last task has ended; empty: it is not.
	Save string
	// Env names the variables that keep the job's value where the image has one, too.
	Env []string
	// Unshare is of net, ipc and uts: namespaces that the container has of its own.
	Unshare []string

	MountHome, RemapRoot, Writable, Entrypoint, EntrypointLog bool

	// A container has the node's Slurm where its image has none and where it can be there. NoSlurm leaves it out, and with
	// WantSlurm it is an error where it cannot be there.
	NoSlurm, WantSlurm bool

	// ImageCache is how many bytes of images a node keeps for each user; 0: the site says nothing.
	ImageCache int64
	// ImageDir is the user's directory for images of registries, which nodes share; empty: each node has its own. It has
	// %h for the home directory, %u for the user's name and %U for the id.
	ImageDir string
}

// NameMode says which container of a name a step takes.
type NameMode string

// The modes of a name. Auto joins the running container, or starts the one on disk, or creates one.
const (
	Auto   NameMode = "auto"
	Create NameMode = "create"
	Exec   NameMode = "exec"
	NoExec NameMode = "no_exec"
)

// Given says whether a container is asked for.
func (o Options) Given() bool { return o.Image != "" || o.Name != "" }

// reader collects what the command line gives, then what the environment and the site's defaults add.
type reader struct {
	Options
	mounts  []string
	given   map[string]string // an option's value, by the name that takes both its forms
	ignored []string
}

// Flags adds pyxis' options to a set of flags. The function that it returns, called after the set has parsed, adds
// what the environment and the site's defaults say, and returns the options and those that are ignored because neither
// an image nor a name is given.
func Flags(set *flag.FlagSet) func(getenv func(string) string) (Options, []string, error) {
	r := &reader{given: map[string]string{}}
	for _, name := range []string{"image", "workdir", "name", "save", "env", "unshare"} {
		set.Func("container-"+name, "", func(value string) error { return r.once(name, value) })
	}
	set.Func("container-mounts", "", func(value string) error {
		r.given["mounts"] = value
		return r.addMounts(value)
	})
	for _, s := range switches {
		set.BoolFunc(s.option, "", func(string) error { return r.once(s.name, s.value) })
	}
	var defaults []string
	set.Func("default", "", func(value string) error {
		defaults = append(defaults, value)
		return nil
	})
	return func(getenv func(string) string) (Options, []string, error) {
		err := r.addEnvironment(getenv)
		if err == nil {
			err = r.finish(defaults)
		}
		return r.Options, r.ignored, err
	}
}

// switches are the options without a value. Two of one name contradict each other.
var switches = []struct{ option, name, value string }{
	{"container-mount-home", "mount-home", "1"},
	{"no-container-mount-home", "mount-home", "0"},
	{"container-remap-root", "remap-root", "1"},
	{"no-container-remap-root", "remap-root", "0"},
	{"container-entrypoint", "entrypoint", "1"},
	{"no-container-entrypoint", "entrypoint", "0"},
	{"container-entrypoint-log", "entrypoint-log", "1"},
	{"container-writable", "writable", "1"},
	{"container-readonly", "writable", "0"},
	{"container-slurm", "slurm", "1"},
	{"no-container-slurm", "slurm", "0"},
}

// names are all options by the names that Options are kept under.
var names = []string{
	"image", "mounts", "workdir", "name", "save", "mount-home", "remap-root", "entrypoint", "entrypoint-log", "writable", "env", "unshare",
	"slurm",
}

func (r *reader) once(name, value string) error {
	if value == "" {
		return errors.New("it needs a value")
	}
	if before, twice := r.given[name]; twice && before != value {
		return fmt.Errorf("it contradicts an earlier option: %s=%q there", name, before)
	}
	r.given[name] = value
	return nil
}

// addEnvironment takes PYXIS_CONTAINER_… for what no option gives.
func (r *reader) addEnvironment(getenv func(string) string) error {
	for _, name := range names {
		variable := "PYXIS_CONTAINER_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		value := getenv(variable)
		if _, given := r.given[name]; given || value == "" {
			continue
		}
		if err := r.set(name, value); err != nil {
			return fmt.Errorf("%s=%q: %w", variable, value, err)
		}
	}
	value := getenv("PYXIS_CONTAINER_READONLY")
	if _, given := r.given["writable"]; given || value == "" {
		return nil
	}
	readonly, err := parseBool(value)
	if err != nil {
		return fmt.Errorf("PYXIS_CONTAINER_READONLY=%q: %w", value, err)
	}
	r.given["writable"] = map[bool]string{true: "0", false: "1"}[readonly]
	return nil
}

func (r *reader) set(name, value string) error {
	if name == "mounts" {
		r.given[name] = value
		return r.addMounts(value)
	}
	if slices.ContainsFunc(switches, func(s struct{ option, name, value string }) bool { return s.name == name }) {
		if _, err := parseBool(value); err != nil {
			return err
		}
	}
	return r.once(name, value)
}

func (r *reader) addMounts(list string) error {
	if list == "" {
		return errors.New("it needs a value")
	}
	for entry := range strings.SplitSeq(list, ",") {
		m, err := ParseMount(entry)
		if err != nil {
			return err
		}
		if !slices.Contains(r.mounts, entry) {
			r.mounts = append(r.mounts, entry)
			r.Mounts = append(r.Mounts, m)
		}
	}
	return nil
}

// finish judges what is given. A default is one of plugstack.conf's arguments, as in writable=1.
func (r *reader) finish(defaults []string) error {
	for _, d := range defaults {
		name, value, _ := strings.Cut(d, "=")
		if name == "image_cache" || name == "image_dir" {
			var err error
			if name == "image_dir" {
				r.ImageDir, err = value, CheckImageDir(value)
			} else {
				r.ImageCache, err = parseSize(value)
			}
			if err != nil {
				return fmt.Errorf("plugstack.conf gives spank_slurmlet.so the argument %q: %w", d, err)
			}
			continue
		}
		name = strings.ReplaceAll(name, "_", "-")
		known := slices.Contains([]string{"mount-home", "remap-root", "writable", "entrypoint", "slurm"}, name)
		if _, err := parseBool(value); err != nil || !known {
			return fmt.Errorf("plugstack.conf gives spank_slurmlet.so the argument %q: want program=, store=, image_cache=, image_dir=, or "+
				"mount_home=, remap_root=, writable=, entrypoint= or slurm= with 0 or 1", d)
		}
		if _, given := r.given[name]; !given && r.given["image"]+r.given["name"] != "" {
			r.given[name] = value
		}
	}
	for name, to := range map[string]*bool{
		"mount-home": &r.MountHome, "remap-root": &r.RemapRoot, "writable": &r.Writable, "entrypoint": &r.Entrypoint,
		"entrypoint-log": &r.EntrypointLog,
	} {
		*to, _ = parseBool(cmp.Or(r.given[name], "0"))
	}
	if slurm, given := r.given["slurm"]; given {
		r.WantSlurm, _ = parseBool(slurm)
		r.NoSlurm = !r.WantSlurm
	}
	if r.given["image"]+r.given["name"] == "" {
		for _, name := range names {
			if _, given := r.given[name]; given {
				r.ignored = append(r.ignored, "container-"+name)
			}
		}
		return nil
	}
	r.Image, r.Workdir, r.Save = r.given["image"], r.given["workdir"], r.given["save"]
	return errors.Join(r.checkImage(), r.checkSave(), r.parseName(), r.parseLists())
}

// IsPath says whether an image is a directory or a file of the node. What is neither is an image of a registry, as with
// pyxis.
func IsPath(image string) bool {
	if strings.HasPrefix(image, "/") || strings.HasPrefix(image, ".") {
		return true
	}
	return !strings.Contains(image, "://") && slices.ContainsFunc([]string{".sqsh", ".sqfs", ".squashfs"}, func(suffix string) bool {
		return strings.HasSuffix(image, suffix)
	})
}

// checkImage refuses what is neither a path nor a registry's image.
func (r *reader) checkImage() error {
	if r.Image == "" || IsPath(r.Image) {
		return nil
	}
	ref, err := imageref.Parse(r.Image)
	if err != nil {
		return fmt.Errorf("--container-image=%s: want a directory, a .sqsh file or an image of a registry: %w", r.Image, err)
	}
	if ref.Image == nil {
		return fmt.Errorf("--container-image=%s: a step takes no archive and no OCI layout; `slurmlet-container import %s` makes "+
			"a .sqsh file of it", r.Image, r.Image)
	}
	return nil
}

// checkSave refuses what is a directory on every node.
func (r *reader) checkSave() error {
	_, base := path.Split(r.Save)
	if r.Save == "" || base != "" && base != "." && base != ".." && !strings.ContainsRune(r.Save, 0) {
		return nil
	}
	return fmt.Errorf("--container-save=%s: want the path of a file, not of a directory", r.Save)
}

func (r *reader) parseName() error {
	name, mode, _ := strings.Cut(r.given["name"], ":")
	r.Name, r.NameMode = name, NameMode(cmp.Or(mode, string(Auto)))
	switch {
	case r.given["name"] == "":
		return nil
	case name == "" || name == "." || name == ".." || len(name) > 200 || strings.ContainsAny(name, "/\x00\n"):
		return fmt.Errorf("--container-name=%s: want a name without a slash, of at most 200 characters", r.given["name"])
	case !slices.Contains([]NameMode{Auto, Create, Exec, NoExec}, r.NameMode):
		return fmt.Errorf("--container-name=%s: want auto, create, exec or no_exec after the colon", r.given["name"])
	case r.NameMode == Create && r.Image == "":
		return fmt.Errorf("--container-name=%s: want --container-image, too", r.given["name"])
	}
	return nil
}

func (r *reader) parseLists() error {
	if text := r.given["env"]; text != "" {
		r.Env = strings.Split(text, ",")
		if slices.Contains(r.Env, "") || strings.ContainsAny(text, "=\x00") {
			return fmt.Errorf("--container-env=%s: want names of variables, separated by commas", text)
		}
	}
	if text := r.given["unshare"]; text != "" {
		for kind := range strings.SplitSeq(text, ",") {
			if !slices.Contains([]string{"net", "ipc", "uts"}, kind) {
				return fmt.Errorf("--container-unshare=%s: want net, ipc or uts, separated by commas", text)
			}
			r.Unshare = append(r.Unshare, kind)
		}
		slices.Sort(r.Unshare)
		r.Unshare = slices.Compact(r.Unshare)
	}
	return nil
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "1", "true", "yes", "y":
		return true, nil
	case "0", "false", "no", "n":
		return false, nil
	}
	return false, errors.New("want 1, true, yes or y, or 0, false, no or n")
}

// size is a quantity as Kubernetes writes one.
var size = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]{1,15})([kMGT]i?)?$`) })

// parseSize reads a number of bytes: 1000000000, 1G, 20Gi.
func parseSize(text string) (int64, error) {
	parts := size().FindStringSubmatch(text)
	if parts == nil {
		return 0, errors.New("want a size as in 50Gi")
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	unit, base := strings.TrimSuffix(parts[2], "i"), int64(1000)
	if strings.HasSuffix(parts[2], "i") {
		base = 1024
	}
	for range strings.Index(" kMGT", cmp.Or(unit, " ")) {
		if n > math.MaxInt64/base {
			return 0, errors.New("it is too large")
		}
		n *= base
	}
	if err == nil && n == 0 {
		err = errors.New("want more than nothing")
	}
	return n, err
}

// Parse reads the options of a command line, the environment and the site's defaults.
func Parse(args []string, getenv func(string) string) (Options, []string, error) {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	done := Flags(set)
	if err := set.Parse(args); err != nil {
		return Options{}, nil, err
	}
	return done(getenv)
}
