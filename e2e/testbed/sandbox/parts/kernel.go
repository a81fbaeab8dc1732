package parts

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

//go:embed kernel/fragment.config kernel/*.patch
var kernelFiles embed.FS

const (
	kernelBinary = "linux"
	// kernelObjects is about how many files are compiled, for the progress.
	kernelObjects = 1240
)

// Kernel returns the path of the User-Mode-Linux kernel binary (static),
// building it when the cache has none: about 6 CPU minutes and 2 GB of disk
// meanwhile.
func Kernel(ctx context.Context, p Progress) (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("cannot build a kernel: User-Mode Linux runs on amd64, not on %s", runtime.GOARCH)
	}
	fragment, patches, err := kernelInputs()
	if err != nil {
		return "", err
	}
	inputs := []string{runtime.GOARCH, wantedSeries, fragment}
	for _, patch := range patches {
		inputs = append(inputs, patch.text)
	}
	e := entry{name: "kernel", key: keyOf(inputs...)}
	dir, err := e.obtain(ctx, p, func(dir string) error {
		return buildKernel(ctx, dir, fragment, patches, p)
	})
	return filepath.Join(dir, kernelBinary), err
}

// patch is a change of ours to the kernel's source.
type patch struct{ name, text string }

// kernelInputs returns the embedded configuration fragment and the patches in the order of their names.
func kernelInputs() (fragment string, patches []patch, err error) {
	files, err := kernelFiles.ReadDir("kernel")
	if err != nil {
		return "", nil, fmt.Errorf("cannot read the kernel's configuration: %w", err)
	}
	for _, f := range files {
		text, err := kernelFiles.ReadFile("kernel/" + f.Name())
		if err != nil {
			return "", nil, fmt.Errorf("cannot read the kernel's configuration: %w", err)
		}
		if strings.HasSuffix(f.Name(), ".patch") {
			patches = append(patches, patch{name: f.Name(), text: string(text)})
		} else {
			fragment = string(text)
		}
	}
	return fragment, patches, nil
}

// buildKernel leaves the kernel, its configuration and what it was made from in dir.
func buildKernel(ctx context.Context, dir, fragment string, patches []patch, p Progress) error {
	started := time.Now()
	if err := Install(ctx, p, "kernel"); err != nil {
		return err
	}
	m, err := machineMirror()
	if err != nil {
		return err
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		return fmt.Errorf("cannot make the build directory: %w", err)
	}
	src, err := fetchKernelSource(ctx, work, m, p)
	if err != nil {
		return err
	}
	if err := applyPatches(ctx, src.tree, patches, p); err != nil {
		return err
	}
	if err := configure(ctx, src.tree, fragment, p); err != nil {
		return err
	}
	if err := compile(ctx, src.tree, filepath.Join(dir, kernelBinary), p); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(src.tree, ".config"), filepath.Join(dir, "config")); err != nil {
		return fmt.Errorf("cannot keep the kernel's configuration: %w", err)
	}
	about := fmt.Sprintf("%s from %s, %d patches\n", src.version, src.suite, len(patches))
	if err := os.WriteFile(filepath.Join(dir, "about"), []byte(about), 0o644); err != nil {
		return fmt.Errorf("cannot note what the kernel was made from: %w", err)
	}
	if err := os.RemoveAll(work); err != nil {
		return fmt.Errorf("cannot remove the build directory: %w", err)
	}
	p("kernel: done (%s)", since(started))
	return nil
}

// applyPatches applies each of them or fails: a kernel that lacks one hangs now and then.
func applyPatches(ctx context.Context, tree string, patches []patch, p Progress) error {
	for _, patch := range patches {
		p("kernel: applies %s", patch.name)
		file := filepath.Join(filepath.Dir(tree), patch.name)
		if err := os.WriteFile(file, []byte(patch.text), 0o644); err != nil {
			return fmt.Errorf("cannot write a patch: %w", err)
		}
		c := command{dir: tree}
		if err := c.run(ctx, "patch", "-p1", "--forward", "--batch", "-i", file); err != nil {
			return fmt.Errorf("cannot apply %s: %w", patch.name, err)
		}
	}
	return nil
}

// configure takes the kernel's own default configuration and puts the fragment over it.
func configure(ctx context.Context, tree, fragment string, p Progress) error {
	p("kernel: configures")
	if err := makeKernel(ctx, tree, nil, "defconfig"); err != nil {
		return err
	}
	path := filepath.Join(tree, ".config")
	config, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read the default configuration: %w", err)
	}
	// Of two values the later one counts.
	if err := os.WriteFile(path, append(config, fragment...), 0o644); err != nil {
		return fmt.Errorf("cannot write the configuration: %w", err)
	}
	if err := makeKernel(ctx, tree, nil, "olddefconfig"); err != nil {
		return err
	}
	config, err = os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read the configuration: %w", err)
	}
	return checkConfig(fragment, string(config))
}

// compile builds the kernel and puts it, without symbols, at target.
func compile(ctx context.Context, tree, target string, p Progress) error {
	jobs := runtime.NumCPU()
	p("kernel: compiles with %d jobs, 4 minutes on two processors", jobs)
	s := watch(p, "kernel: compiled %d of about %d files", kernelObjects, "  CC ", "  AS ")
	defer s.stop()
	// Without warnings (-w): of headers that are compiled before a file defines pr_fmt(), there is one for each such file.
	if err := makeKernel(ctx, tree, s.line, "KCFLAGS=-w", "-j"+strconv.Itoa(jobs), kernelBinary); err != nil {
		return err
	}
	c := command{dir: tree}
	if err := c.run(ctx, "strip", "-o", target, kernelBinary); err != nil {
		return fmt.Errorf("cannot strip the kernel: %w", err)
	}
	return nil
}

func makeKernel(ctx context.Context, tree string, line func(string), args ...string) error {
	c := command{dir: tree, line: line}
	if err := c.run(ctx, "make", append([]string{"ARCH=um"}, args...)...); err != nil {
		return fmt.Errorf("cannot make %s: %w", args[len(args)-1], err)
	}
	return nil
}
