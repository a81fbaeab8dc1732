package parts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Prometheus returns the directory of Debian's prometheus and promtool. They are unpacked and not
// installed, because the package starts a service.
func Prometheus(ctx context.Context, p Progress) (string, error) {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", fmt.Errorf("cannot tell which Debian this is: %w", err)
	}
	suite := codename(string(text)) // its C library is the machine's
	e := entry{name: "prometheus", key: keyOf(runtime.GOARCH, suite)}
	dir, err := e.obtain(ctx, p, func(dir string) error { return unpackPrometheus(ctx, dir, suite, p) })
	return filepath.Join(dir, "bin"), err
}

func unpackPrometheus(ctx context.Context, dir, suite string, p Progress) error {
	started := time.Now()
	m, err := rootsMirror(ctx, p)
	if err != nil {
		return err
	}
	p("prometheus: downloads it from %s (about 20 MB)", suite)
	work := filepath.Join(dir, "work")
	a, err := newApt(ctx, work, m.lines(suite), nil)
	if err != nil {
		return err
	}
	deb, err := a.download(ctx, work, "prometheus")
	if err != nil {
		return err
	}
	if err := (command{}).run(ctx, "dpkg-deb", "-x", deb, filepath.Join(work, "deb")); err != nil {
		return fmt.Errorf("cannot unpack %s: %w", deb, err)
	}
	if err := os.Rename(filepath.Join(work, "deb/usr/bin"), filepath.Join(dir, "bin")); err != nil {
		return fmt.Errorf("cannot unpack %s: %w", deb, err)
	}
	p("prometheus: done (%s)", since(started))
	return os.RemoveAll(work)
}
