// Package importer makes one squashfs file of an image, as `enroot import` does: it gets the image from a registry, an
// archive or an OCI layout, verifies each digest, and has squashfs-tools write what the layers make together. It runs as
// the user, without a privilege, and unpacks nothing.
package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/credentials"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/imageref"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/layers"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/sqfstar"
)

// Import is one image on its way into a file.
type Import struct {
	// Arch is the architecture as Go names it.
	Arch string
	// Files are where credentials are looked for.
	Files credentials.Files
	// Plain allows plain HTTP with other machines than this one.
	Plain bool
	// Output is the file, which must not be there yet. It appears when it is whole.
	Output string
	// Temp is a directory for layers on their way; empty: that of Output.
	Temp string
	// Messages takes what the user sees of the progress.
	Messages io.Writer

	ref   imageref.Reference
	began time.Time
	// step has what a pull for a step does otherwise; nil: a person imports.
	step *step
	// total and done count bytes of the layers.
	total int64
	done  atomic.Int64
}

// step is a pull on a node. Nobody chooses a platform or a directory there, and many nodes write to one terminal.
type step struct {
	node string
	room func(bytes int64) error
}

// every and everyOfStep separate two lines about the progress.
const (
	every       = 5 * time.Second
	everyOfStep = 30 * time.Second
)

// hint is what a person can do about an error.
func (i *Import) hint(text string) string {
	if i.step != nil {
		return ""
	}
	return " (" + text + ")"
}

const hintArch = "--arch takes another one"

// Run imports the image that a text names.
func (i *Import) Run(ctx context.Context, text string) (err error) {
	i.began = time.Now()
	if i.ref, err = imageref.Parse(text); err != nil {
		return err
	}
	if i.Output, err = filepath.Abs(i.Output); err != nil {
		return fmt.Errorf("cannot write the file: %w", err)
	}
	if _, err := os.Lstat(i.Output); err == nil {
		return fmt.Errorf("%s is there already", i.Output)
	}
	if i.Temp == "" {
		i.Temp = filepath.Dir(i.Output)
	}
	program, err := sqfstar.Find()
	if err != nil {
		return err
	}
	err = i.run(ctx, program)
	if ctx.Err() != nil {
		return errors.New("the import is cancelled, and nothing of it is left")
	}
	return redacted(err)
}

func (i *Import) run(ctx context.Context, program string) error {
	// first, because a directory that cannot be written is known before an image has been fetched
	dir, err := os.MkdirTemp(filepath.Dir(i.Output), "."+filepath.Base(i.Output)+".")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", i.Output, err)
	}
	defer os.RemoveAll(dir)
	image, err := i.open(ctx)
	if err != nil {
		return err
	}
	written, err := i.make(ctx, program, dir, image)
	if err == nil {
		i.say("has written %s, %s, in %v", i.Output, size(written), time.Since(i.began).Round(100*time.Millisecond))
	}
	return err
}

// make makes the file of an image, in a directory on the same file system first, and returns its size.
func (i *Import) make(ctx context.Context, program, dir string, image v1.Image) (int64, error) {
	config, err := i.verify(image)
	if err != nil {
		return 0, err
	}
	if config.Architecture != "" && config.Architecture != i.Arch || config.OS != "" && config.OS != "linux" {
		return 0, fmt.Errorf("%s is for %s/%s, and linux/%s is wanted%s",
			i.ref, config.OS, config.Architecture, i.Arch, i.hint(hintArch))
	}
	blobs, err := i.fetch(ctx, image, config.RootFS.DiffIDs)
	defer func() {
		for _, b := range blobs {
			b.close()
		}
	}()
	if err != nil {
		return 0, err
	}
	tree, err := i.merge(blobs, config.Config)
	if err != nil {
		return 0, err
	}
	file := filepath.Join(dir, "image")
	if err := i.write(ctx, program, file, tree, blobs); err != nil {
		return 0, err
	}
	return i.finish(file)
}

func (i *Import) merge(blobs []*blob, config v1.Config) (*layers.Tree, error) {
	tree := layers.New()
	for _, b := range blobs {
		if err := tree.Add(b.entries); err != nil {
			return nil, fmt.Errorf("cannot put together %s: %w", i.ref, err)
		}
		b.entries = nil
	}
	if tree.Devices > 0 {
		i.say("leaves out %d device nodes, which no user can make", tree.Devices)
	}
	return tree, configure(tree, config)
}

// finish gives the file its name, and returns its size. A file that somebody else has made meanwhile stays.
func (i *Import) finish(file string) (int64, error) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return 0, fmt.Errorf("cannot write %s: %w", i.Output, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		if _, there := os.Lstat(i.Output); there == nil {
			return 0, fmt.Errorf("%s is there already", i.Output)
		}
		err = os.Rename(file, i.Output)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot write %s: %w", i.Output, err)
	}
	return info.Size(), nil
}

func (i *Import) say(format string, args ...any) {
	who := "slurmlet: "
	if i.step != nil {
		who += i.step.node + ": "
	}
	fmt.Fprintf(i.Messages, who+format+"\n", args...)
}

// tell tells every few seconds how far something is, until the function that it returns is called.
func (i *Import) tell(what string) (end func()) {
	i.done.Store(0)
	between := every
	if i.step != nil {
		between = everyOfStep
	}
	ticks, ended := time.NewTicker(between), make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-ticks.C:
			}
			if done := i.done.Load(); i.total > 0 {
				i.say("%s: %d%% of %s", what, done*100/i.total, size(i.total))
			} else {
				i.say("%s: %s", what, size(done))
			}
		}
	}()
	return func() {
		ticks.Stop()
		close(ended)
	}
}

func size(bytes int64) string {
	switch {
	case bytes >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
	case bytes >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.1f kB", float64(bytes)/1e3)
}

// query is what follows an address, where a registry's store of blobs has a key for each download.
var query = regexp.MustCompile(`\?[^\s"]+`)

// redacted is an error without what may be secret in it.
func redacted(err error) error {
	if err == nil || !query.MatchString(err.Error()) {
		return err
	}
	return errors.New(query.ReplaceAllString(err.Error(), "?…"))
}
