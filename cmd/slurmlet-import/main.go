// Slurmlet-import makes a squashfs file of an image, for srun --container-image. People run it as slurmlet-container
// import. It is a program of its own because the clients of registries make each start of one slower by a millisecond,
// and slurmlet-container starts three times for a step.
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
	if err := importImage(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "slurmlet: %v\n", err)
		os.Exit(exitcode.Failure)
	}
}

// importImage makes a file of an image, with the options of enroot import. They may stand on both sides of the image.
func importImage(args []string, stderr io.Writer) error {
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
	if i.Output == "" {
		var err error
		if i.Output, err = imageref.FileName(images[0]); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return i.Run(ctx, images[0])
}
