package sandbox

import (
	"fmt"
	"path/filepath"
)

// The pods of accounting and REST.
const (
	Database     = "mariadb"
	DatabasePort = 3306
	Slurmdbd     = "slurmdbd"
	Slurmrestd   = "slurmrestd"
	RESTPort     = 6820
	// DBDConf is slurmdbd's volume: a Secret with slurmdbd.conf and the keys.
	DBDConf = "dbd-conf"
	// DatabasePassword is that of slurmdbd's user in the database.
	DatabasePassword = "sandbox"
	jwtKey           = "jwt_hs256.key"
)

// Accounting is the same cluster with accounting, and with JSON Web Tokens. Its
// further pods are Database, Slurmdbd and REST.
func (c Cluster) Accounting() Cluster {
	c.SlurmConf += accountingConf
	return c
}

// slurm.conf(5).
const accountingConf = `AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=slurmdbd
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/` + jwtKey + `
`

// Database is MariaDB, as small as it can be, with its data on a volume that
// outlives the pod.
func (c Cluster) Database() PodSpec {
	return PodSpec{
		Name: Database, Args: []string{"/bin/sh", "-c", databaseScript}, Restart: "Always",
		Volumes: []Volume{
			{Name: "mariadb", Path: "/var/lib/mysql", Shared: true, Mode: 0o700},
			{Name: "init", Path: "/etc/mysql/init", Files: map[string]File{"init.sql": {Data: []byte(fmt.Sprintf(databaseInit, DatabasePassword))}}},
		},
	}
}

const databaseScript = `set -eu
mkdir -p /run/mysqld
if ! test -e /var/lib/mysql/.made; then
  rm -rf /var/lib/mysql/*
  mariadb-install-db --user=root --datadir=/var/lib/mysql --skip-test-db --auth-root-authentication-method=normal >/dev/null
  touch /var/lib/mysql/.made
fi
exec mariadbd --user=root --datadir=/var/lib/mysql --socket=/run/mysqld/mysqld.sock --bind-address=0.0.0.0 --skip-name-resolve \
  --init-file=/etc/mysql/init/init.sql --innodb-buffer-pool-size=32M --innodb-log-file-size=64M --innodb-lock-wait-timeout=900 \
  --loose-innodb-snapshot-isolation=OFF --performance-schema=OFF`

const databaseInit = `CREATE USER IF NOT EXISTS slurm@'%%' IDENTIFIED BY '%s';
GRANT ALL ON slurm_acct_db.* TO slurm@'%%';
`

// Slurmdbd finds its files as a Secret has them: root's.
func (c Cluster) Slurmdbd() PodSpec {
	spec := c.pod(Slurmdbd, Slurmdbd)
	spec.Volumes = append(spec.Volumes[:1:1], Volume{Name: DBDConf, Path: "/etc/slurm", Projected: true, Files: c.DBDFiles(DatabasePassword)})
	return spec
}

// DBDFiles are those of slurmdbd's volume.
func (c Cluster) DBDFiles(password string) map[string]File {
	return map[string]File{
		"slurmdbd.conf": {Data: []byte(fmt.Sprintf(slurmdbdConf, password)), Mode: 0o400},
		"slurm.key":     {Data: c.Key, Mode: 0o400},
		jwtKey:          {Data: c.JWTKey, Mode: 0o400},
	}
}

// slurmdbd.conf(5).
const slurmdbdConf = `DbdHost=slurmdbd
SlurmUser=slurm
AuthType=auth/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/run/slurmlet/slurmdbd/` + jwtKey + `
PidFile=/run/slurmdbd/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=mariadb
StorageUser=slurm
StoragePass=%s
StorageLoc=slurm_acct_db
`

// REST is slurmrestd, which holds no key.
func (c Cluster) REST() PodSpec {
	spec := c.pod(Slurmrestd, Slurmrestd)
	spec.Volumes = append(spec.Volumes[:1:1], Volume{Name: "etc", Path: "/etc/slurm", Files: map[string]File{"slurm.conf": {Data: []byte(c.SlurmConf)}}})
	return spec
}

// jwtKey is kept beside the sandbox's own, as Slurm's key is.
func (s *Sandbox) jwtKey() ([]byte, error) { return secret(filepath.Join(s.dir, jwtKey), 32) }
