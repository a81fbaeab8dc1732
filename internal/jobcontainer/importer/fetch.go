package importer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/layers"
)

// blob is one layer, which can be read again and again.
type blob struct {
	open  func() (io.ReadCloser, error)
	close func()
	// done counts what is read of it; nil: what has come from a registry is counted on its way.
	done    *atomic.Int64
	entries []layers.Entry
	// kept says that it is a file of this process', in S2, and size how long that is.
	kept bool
	size int64
}

// atOnce is how many layers are on their way at the same time.
const atOnce = 3

// fetch gets all layers, and lists what each has. The ones that it returns are to be closed, also with an error.
func (i *Import) fetch(ctx context.Context, image v1.Image, diffs []v1.Hash) ([]*blob, error) {
	all, err := image.Layers()
	if err != nil {
		return nil, fmt.Errorf("cannot list the layers of %s: %w", i.ref, err)
	}
	if len(all) != len(diffs) {
		return nil, fmt.Errorf("%s has %d layers, and its configuration %d", i.ref, len(all), len(diffs))
	}
	if err := i.measure(all); err != nil {
		return nil, err
	}
	blobs := make([]*blob, len(all))
	for n := range blobs {
		blobs[n] = &blob{close: func() {}}
	}
	end := i.tell("layers")
	defer end()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for n, layer := range all {
		group.Go(func() error {
			if err := i.take(ctx, layer, blobs[n], diffs[n]); err != nil {
				return fmt.Errorf("layer %d of %d: %w", n+1, len(all), err)
			}
			return nil
		})
	}
	return blobs, group.Wait()
}

// measure counts what is to come, and looks whether there is room for it.
func (i *Import) measure(all []v1.Layer) error {
	if i.ref.Archive {
		i.say("%s: %d layers", i.ref, len(all))
		return nil
	}
	for n, layer := range all {
		kind, err := layer.MediaType()
		if err != nil {
			return fmt.Errorf("layer %d: %w", n+1, err)
		}
		if !kind.IsLayer() || !kind.IsDistributable() {
			return fmt.Errorf("layer %d of %s is of the type %s, which is no layer of Linux", n+1, i.ref, kind)
		}
		bytes, err := layer.Size()
		if err != nil {
			return fmt.Errorf("layer %d: %w", n+1, err)
		}
		i.total += bytes
	}
	i.say("%s: %d layers, %s", i.ref, len(all), size(i.total))
	if i.step != nil {
		// the layers and the file that is made of them, both in a compression that takes more room than gzip's
		if err := i.step.room(3 * i.total); err != nil {
			return err
		}
	}
	var free unix.Statfs_t
	if i.ref.Image == nil || unix.Statfs(i.Temp, &free) != nil {
		return nil
	}
	if room := int64(free.Bavail) * free.Bsize; room < i.total {
		return fmt.Errorf("the layers of %s need %s, and %s has %s free%s",
			i.ref, size(i.total), i.Temp, size(room), i.hint("TMPDIR names another directory for them"))
	}
	return nil
}

// take makes a layer a blob that can be read again, and lists it.
func (i *Import) take(ctx context.Context, layer v1.Layer, b *blob, diff v1.Hash) error {
	b.open = layer.Compressed
	if i.ref.Archive {
		b.open = layer.Uncompressed
	}
	if i.ref.Image == nil {
		b.done = &i.done
		return b.read(ctx, func(r io.Reader) error { return b.list(r, diff) })
	}
	f, err := os.CreateTemp(i.Temp, ".slurmlet-layer-")
	if err != nil {
		return err
	}
	b.close = func() { _ = f.Close() } // it has no name, and ends with this process
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	r, err := layer.Compressed()
	if err != nil {
		return err
	}
	return i.keep(ctx, f, r, b, diff)
}

// keep lists a layer while it comes from a registry, and keeps it in a file in S2, which costs little time: gzip's takes
// most of an import's, and would be read twice. The client compares the layer's digest at its end.
func (i *Import) keep(ctx context.Context, f *os.File, r io.ReadCloser, b *blob, diff v1.Hash) error {
	coming := readAhead(reader{ctx, r, &i.done})
	defer func() {
		_ = r.Close() // it ends a read
		coming.end()
	}()
	to := s2.NewWriter(f)
	err := readPlain(coming, func(plain io.Reader) error { return b.list(io.TeeReader(plain, to), diff) })
	if failed := to.Close(); failed != nil {
		return failed
	}
	// a layer that is not what its digest says is cut or changed in the first place, whatever else is wrong with it
	if _, failed := io.Copy(io.Discard, coming); failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	b.kept, b.size = true, info.Size()
	b.open = func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(f, 0, b.size)), nil }
	return nil
}

// list lists a layer, which it reads as a whole, and compares its digest.
func (b *blob) list(r io.Reader, want v1.Hash) error {
	digest := sha256.New()
	both := io.TeeReader(r, digest)
	var err error
	if b.entries, err = layers.Read(both); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, both); err != nil {
		return err
	}
	if got := hex.EncodeToString(digest.Sum(nil)); want.Algorithm != "sha256" || got != want.Hex {
		return fmt.Errorf("it is sha256:%s, and the image's configuration wants %s", got, want)
	}
	return nil
}

// read opens a layer, and has its tar read.
func (b *blob) read(ctx context.Context, use func(io.Reader) error) error {
	r, err := b.open()
	if err != nil {
		return err
	}
	defer r.Close()
	counted := reader{ctx, r, b.done}
	if b.kept {
		return useAhead(s2.NewReader(counted), use)
	}
	return readPlain(counted, use)
}

// readPlain has what a layer is, without its compression, read.
func readPlain(r io.Reader, use func(io.Reader) error) error {
	plain, end, err := decompress(r)
	if err != nil {
		return err
	}
	defer end()
	return useAhead(plain, use)
}

func useAhead(r io.Reader, use func(io.Reader) error) error {
	before := readAhead(r)
	defer before.end()
	return use(before)
}

// window bounds what a layer's zstd may have in memory.
const window = 128 << 20

// decompress goes by the first bytes: registries name the types of layers wrongly at times.
func decompress(r io.Reader) (io.Reader, func(), error) {
	buffered := bufio.NewReaderSize(r, 1<<16)
	magic, _ := buffered.Peek(4) // a shorter one is no archive
	switch {
	case len(magic) == 4 && string(magic) == "\x28\xb5\x2f\xfd":
		d, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
		if err != nil {
			return nil, nil, err
		}
		return d, d.Close, nil
	case len(magic) >= 2 && string(magic[:2]) == "\x1f\x8b":
		d, err := gzip.NewReader(buffered)
		return d, func() {}, err
	}
	return buffered, func() {}, nil
}

// reader ends with a context, and counts.
type reader struct {
	ctx context.Context
	io.Reader
	done *atomic.Int64 // nil: nobody counts
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.Reader.Read(p)
	if r.done != nil {
		r.done.Add(int64(n))
	}
	return n, err
}
