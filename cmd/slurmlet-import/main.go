// Slurmlet-import makes a squashfs file of an image, for srun --container-image. People run it as slurmlet-container
// import, and slurmlet-container itself for a step whose image is in a registry. It is a program of its own because the
// clients of registries make each start of one slower by two milliseconds, and each step in a container starts
// slurmlet-container.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/credentials"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/imagecache"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/imageref"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/importer"
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

// architectures has Go's names by those that uname prints.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64"}

func init() {
	runtime.LockOSThread() // what dies with its parent dies with the thread that has started it
}

func main() {
	if err := importImage(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "slurmlet: %v\n", err)
		os.Exit(exitcode.Failure)
	}
}

// importImage makes a file of an image, with the options of enroot import. They may stand on both sides of the image.
// With --cache, it pulls for a step.
func importImage(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	i := importer.Import{
		Files: credentials.Of(os.Getenv), Plain: os.Getenv("ENROOT_ALLOW_HTTP") != "", Temp: os.Getenv("TMPDIR"), Messages: stderr,
	}
	set := flag.NewFlagSet("import", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, name := range []string{"o", "output"} {
		set.StringVar(&i.Output, name, "", "")
	}
	for _, name := range []string{"a", "arch"} {
		set.StringVar(&i.Arch, name, runtime.GOARCH, "")
	}
	var cache imagecache.Cache
	var node, step string
	set.StringVar(&cache.Dir, "cache", "", "")
	set.Int64Var(&cache.Limit, "limit", imagecache.DefaultLimit, "")
	set.StringVar(&node, "node", "", "")
	set.StringVar(&step, "step", "", "")
	var images []string
	for len(args) > 0 {
		if err := set.Parse(args); err != nil {
			return err
		}
		if args = set.Args(); len(args) > 0 {
			images, args = append(images, args[0]), args[1:]
		}
	}
	if len(images) != 1 {
		return errors.New("want one image: slurmlet-container import docker://IMAGE [-o FILE.sqsh]")
	}
	if name, is := architectures[i.Arch]; is {
		i.Arch = name
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if cache.Dir != "" {
		digest, held, err := i.Pull(ctx, images[0], node, step, cache)
		if err != nil {
			return err
		}
		return hold(digest, held, stdin, stdout)
	}
	if i.Output == "" {
		var err error
		if i.Output, err = imageref.FileName(images[0]); err != nil {
			return err
		}
	}
	return i.Run(ctx, images[0])
}

// hold prints the digest of an image, and keeps the image in the cache until its standard input ends: slurmlet-container
// holds it by then.
func hold(digest string, held *os.File, stdin io.Reader, stdout io.Writer) error {
	defer held.Close()
	if _, err := fmt.Fprintln(stdout, digest); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, stdin)
	return err
}
