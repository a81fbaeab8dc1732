package oci

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Layer writes files of the host's into an uncompressed tar archive: path in
// the image → file or directory on the host. A directory is taken with
// everything in it, with its owners and permissions.
func Layer(w io.Writer, files map[string]string) error {
	out := tar.NewWriter(w)
	for _, to := range slices.Sorted(maps.Keys(files)) {
		from := files[to]
		err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			inside, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}
			return add(out, path, strings.TrimPrefix(filepath.Join(to, inside), "/"), d)
		})
		if err != nil {
			return fmt.Errorf("cannot pack %s: %v", from, err)
		}
	}
	return out.Close()
}

func add(out *tar.Writer, path, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	if name == "" || info.Mode()&fs.ModeSocket != 0 {
		return nil // the root itself, and what no archive can hold
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	header.Name, header.Uname, header.Gname = name, "", ""
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		header.Uid, header.Gid = int(owner.Uid), int(owner.Gid)
	}
	if err := out.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, f)
	return errors.Join(err, f.Close())
}
