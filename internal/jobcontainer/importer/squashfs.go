package importer

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/layers"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/sqfstar"
)

// write has sqfstar write the file.
func (i *Import) write(ctx context.Context, program, file string, tree *layers.Tree, blobs []*blob) error {
	to, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", i.Output, err)
	}
	defer to.Close()
	if i.ref.Image != nil {
		i.total = 0
		for _, b := range blobs {
			i.total += b.size
		}
	}
	defer i.tell("writes the file, layers")()
	return sqfstar.Write(ctx, program, i.Output, to, func(out io.Writer) error { return i.feed(ctx, out, tree, blobs) })
}

func (i *Import) feed(ctx context.Context, out io.Writer, tree *layers.Tree, blobs []*blob) error {
	w, err := tree.Begin(out)
	for n := 0; err == nil && n < len(blobs); n++ {
		blobs[n].done = &i.done
		err = blobs[n].read(ctx, func(r io.Reader) error { return w.Layer(n, r) })
	}
	if err != nil {
		return err
	}
	return w.Close()
}
