//go:build e2e

package monitoring

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// database is a name of slurmctld's machine, on which it runs. slurmdbd has a machine of its own.
const database = sandbox.Database

var slurmdbdAddress = net.IPv4(10, 88, 9, 9)

// account starts the sandbox's database and slurmdbd.
func (c *cluster) account() error {
	pods := sandbox.Cluster{Key: c.files["slurm.key"], JWTKey: make([]byte, 32)} // nobody has a token
	spec := pods.Database()
	err := c.write("/srv/dbd", pods.DBDFiles(sandbox.DatabasePassword))
	for _, v := range spec.Volumes {
		err = errors.Join(err, c.write(v.Path, v.Files))
	}
	if err != nil {
		return err
	}
	if err := c.Command(spec.Args[0], spec.Args[1:]...).Start(); err != nil { // it ends with the namespace
		return fmt.Errorf("cannot start the database: %w", err)
	}
	c.slurmdbd = &native.Node{
		Name: sandbox.Slurmdbd, Role: sandbox.Slurmdbd, IP: slurmdbdAddress,
		Ready: make(chan struct{}), Waiting: make(chan struct{}), Exited: make(chan struct{}),
	}
	return errors.Join(c.Start(c.slurmdbd, "SLURMLET_CONF_DIR=/srv/dbd"), c.slurmdbd.AwaitReady(time.Minute))
}

// write makes files in a directory of the cluster's root.
func (c *cluster) write(dir string, files map[string]sandbox.File) error {
	dir = filepath.Join(c.Root, dir)
	err := os.MkdirAll(dir, 0o755)
	for name, file := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), file.Data, 0o600))
	}
	return err
}
