// Slurmlet-container makes jobs' containers without a privilege. The SPANK plugin spank_slurmlet.so runs it: check
// where a job is submitted, and, as the job's user, enter in a step's first task on each node and save beside its last one.
// People run import, probe, list and rm.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/imagecache"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/imageref"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/options"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/privatedirs"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/rootfs"
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

// version is set by the linker.
var version = "development"

const usage = `slurmlet-container makes jobs' containers; srun --container-image=… uses it.

  slurmlet-container import IMAGE [-o FILE.sqsh] [--arch ARCH]
                                  make a file for --container-image of an image:
                                  docker://[USER@][REGISTRY#]NAME[:TAG], docker-archive:FILE, oci-archive:FILE
                                  or oci:DIRECTORY
  slurmlet-container probe        whether this node can make containers, and jobs' own directories, and what lacks
  slurmlet-container list         your containers with a name on this node, and the images that steps have pulled
  slurmlet-container rm NAME      remove a container, or an image
  slurmlet-container check …      whether these options of srun's are right
  slurmlet-container version
`

// defaultStore is where a node keeps containers; plugstack.conf's store= names another directory.
const defaultStore = "/var/lib/slurmlet/containers"

func init() {
	runtime.LockOSThread() // what dies with its parent dies with the thread that has started it
}

func main() {
	if rootfs.IsSlurm(os.Args[0]) {
		status, err := rootfs.RunSlurm(os.Args)
		if err != nil {
			fmt.Fprintf(os.Stderr, "slurmlet: %v\n", err)
			status = exitcode.Failure
		}
		os.Exit(status)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	var err error
	switch verb {
	case "oci", rootfs.Bundled:
		return runBundle(verb, args, stderr)
	case "check":
		err = check(args, stderr)
	case "enter":
		err = enter(args)
	case "save":
		err = saveContainer(args)
	case rootfs.MakeHere:
		err = makeContainer(args)
	case rootfs.Hold:
		err = rootfs.RunHolder()
	case "private":
		err = makePrivate(args)
	case privatedirs.Hold:
		err = privatedirs.RunHolder()
	case "probe":
		err = probe(args, stdout)
	case "import":
		err = importImage(args)
	case "list":
		err = list(args, stdout)
	case "rm":
		err = remove(args)
	case "version":
		_, err = fmt.Fprintln(stdout, version)
	default:
		fmt.Fprint(stderr, usage)
		return exitcode.Usage
	}
	if errors.Is(err, rootfs.ErrReported) {
		return exitcode.Failure
	}
	if err != nil {
		fmt.Fprintf(stderr, "slurmlet: %v\n", err)
		return exitcode.Failure
	}
	return exitcode.OK
}

// parse reads the flags of a verb and pyxis' options.
func parse(args []string, set *flag.FlagSet) (options.Options, []string, error) {
	set.SetOutput(io.Discard)
	done := options.Flags(set)
	if err := set.Parse(args); err != nil {
		return options.Options{}, nil, fmt.Errorf("cannot read the options: %w", err)
	}
	return done(os.Getenv)
}

// check runs where a job is submitted, so that a mistake fails there and not on the node.
func check(args []string, stderr io.Writer) error {
	set := flag.NewFlagSet("check", flag.ContinueOnError)
	by := set.String("by", "srun", "")
	o, ignored, err := parse(args, set)
	if err != nil {
		return err
	}
	for _, name := range ignored {
		fmt.Fprintf(stderr, "slurmlet: --%s is ignored, because neither --container-image nor --container-name is given\n", name)
	}
	if o.Given() && *by == "salloc" {
		fmt.Fprintln(stderr, "slurmlet: salloc checks these options alone; give them to srun in the allocation, too")
	}
	return nil
}

// stepSpec reads the flags and arguments that the plugin gives for a step, beside the options of its user.
func stepSpec(verb string, args []string) (rootfs.Spec, error) {
	set := flag.NewFlagSet(verb, flag.ContinueOnError)
	s := rootfs.Spec{Home: os.Getenv("HOME"), User: os.Getenv("USER"), MPI: os.Getenv("PMIX_SERVER_TMPDIR")}
	set.StringVar(&s.Store, "store", defaultStore, "")
	set.StringVar(&s.Script, "script", "", "")
	set.IntVar(&s.UID, "uid", os.Getuid(), "")
	set.IntVar(&s.GID, "gid", os.Getgid(), "")
	var err error
	s.Options, _, err = parse(args, set)
	s.Dir, _ = os.Getwd() // without one, nothing begins there
	return s, err
}

// makeContainer makes the container of a step in namespaces that the plugin has made, with its pipes as enter has them.
func makeContainer(args []string) error {
	s, err := stepSpec(rootfs.MakeHere, args)
	if err != nil {
		return err
	}
	return rootfs.Make(s)
}

// enter makes the container of a step, with the plugin's pipes: 3 takes the answer, 4 is closed when the step has ended.
func enter(args []string) error {
	s, err := stepSpec("enter", args)
	if err != nil {
		return err
	}
	unix.CloseOnExec(3)
	unix.CloseOnExec(4)
	answer, err := rootfs.Enter(s, os.NewFile(4, "lifeline"))
	if err == nil {
		_, err = os.NewFile(3, "reply").Write(answer)
	}
	return err
}

// saveContainer saves the container of a step whose tasks have ended.
func saveContainer(args []string) error {
	set := flag.NewFlagSet("save", flag.ContinueOnError)
	var s rootfs.Spec
	set.StringVar(&s.Store, "store", defaultStore, "")
	holder := set.Int("holder", 0, "")
	o, _, err := parse(args, set)
	if err != nil {
		return err
	}
	s.Options = o
	return rootfs.SaveContainer(s, *holder)
}

// makePrivate gives a job directories of its own, as root, for the plugin in the job's extern step: 4 is closed when that
// has ended.
func makePrivate(args []string) error {
	set := flag.NewFlagSet("private", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	var s privatedirs.Spec
	dirs := set.String("dirs", "", "")
	set.StringVar(&s.State, "state", "", "")
	set.BoolVar(&s.Processes, "processes", false, "")
	set.Uint64Var(&s.Size, "size", 0, "")
	err := set.Parse(args)
	if err == nil && *dirs != "" {
		s.Dirs, err = privatedirs.Parse(*dirs)
	}
	if err != nil {
		return privatedirs.Refuse(s, err)
	}
	_ = unix.Close(3)
	unix.CloseOnExec(4)
	return privatedirs.Make(s, os.NewFile(4, "lifeline"))
}

// importImage becomes slurmlet-import, which is installed beside this program.
func importImage(args []string) error {
	program, err := rootfs.Importer()
	if err != nil {
		return err
	}
	err = unix.Exec(program, append([]string{program}, args...), os.Environ())
	return fmt.Errorf("cannot run %s: %w", program, err)
}

func list(args []string, stdout io.Writer) error {
	set := flag.NewFlagSet("list", flag.ExitOnError)
	site := readSite(os.Getenv)
	set.StringVar(&site.store, "store", site.store, "the node's directory for containers")
	_ = set.Parse(args) // it exits
	all, err := rootfs.List(site.store, os.Getuid())
	for _, n := range all {
		state := ""
		if n.Running {
			state = "running"
		}
		fmt.Fprintf(stdout, "%-20s %-8s %s\n", n.Name, state, n.Image)
	}
	cache, failed := site.images()
	if failed != nil {
		return errors.Join(err, failed)
	}
	images, failed := cache.List()
	for _, i := range images {
		state := "used " + i.Used.Format(time.DateTime)
		if i.InUse {
			state = "in use"
		}
		fmt.Fprintf(stdout, "%s %.1f MB, %s, %s\n", i.Digest, float64(i.Size)/1e6, state, strings.Join(i.References, " "))
	}
	return errors.Join(err, failed)
}

func remove(args []string) error {
	set := flag.NewFlagSet("rm", flag.ExitOnError)
	site := readSite(os.Getenv)
	set.StringVar(&site.store, "store", site.store, "the node's directory for containers")
	_ = set.Parse(args) // it exits
	if set.NArg() != 1 {
		return errors.New("want the name of one container, or one image")
	}
	name := set.Arg(0)
	named, err := rootfs.List(site.store, os.Getuid())
	if err != nil {
		return err
	}
	cache, err := site.images()
	if err != nil {
		return err
	}
	digest, err := findImage(cache, name)
	if err != nil {
		return err
	}
	// a container may be called as an image is
	if digest == "" || slices.ContainsFunc(named, func(n rootfs.Named) bool { return n.Name == name }) {
		return rootfs.Remove(site.store, os.Getuid(), name)
	}
	if err := cache.Remove(digest); err != nil {
		return fmt.Errorf("cannot remove the image %s: %w", name, err)
	}
	return nil
}

// findImage returns the digest of an image that has been pulled, by its name or that digest, or nothing.
func findImage(cache imagecache.Cache, name string) (string, error) {
	all, err := cache.List()
	reference := name
	if ref, failed := imageref.Parse(name); failed == nil && ref.Image != nil {
		reference = ref.String()
	}
	for _, i := range all {
		if i.Digest == name || slices.Contains(i.References, reference) {
			return i.Digest, nil
		}
	}
	return "", err
}

func probe(args []string, stdout io.Writer) error {
	set := flag.NewFlagSet("probe", flag.ExitOnError)
	store := set.String("store", defaultStore, "the node's directory for containers")
	_ = set.Parse(args) // it exits
	err := rootfs.Probe(*store, stdout)
	if os.Getuid() == 0 {
		privatedirs.Probe(*store, stdout)
	}
	return err
}
