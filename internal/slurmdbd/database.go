// Package slurmdbd asks slurmdbd's database in slurmdbd's place.
package slurmdbd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/kit/keyring"
	"github.com/slurmlet/slurmlet/internal/pod/copies"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// dbd is what the agent must know of slurmdbd.conf(5).
type dbd struct {
	// port is DbdPort, loc StorageLoc: the database's name.
	port, loc string
	// storage is how to log in to the database; nil where it is reached by a socket
	// of its own machine, which slurmdbd finds by itself.
	storage *mysql.Config
}

const slurmdbdConf = "slurmdbd.conf"

// databaseLimit is how long the database may take to answer.
const databaseLimit = 5 * time.Second

// readDBD reads a slurmdbd.conf. Its error never has a value in it.
func readDBD(text string) (dbd, error) {
	file, findings := slurmconf.Parse(slurmdbdConf, text)
	for _, f := range findings {
		if f.Severity == slurmconf.Error {
			return dbd{}, fmt.Errorf("cannot read %s: %s is not as slurmdbd.conf(5) wants it", slurmdbdConf, f.Position)
		}
	}
	get := func(key, fallback string) string {
		value := fallback
		for _, line := range file.Lines {
			if pair, found := line.Get(key); found {
				value = pair.Value
			}
		}
		return value
	}
	d := dbd{port: get("DbdPort", "6819"), loc: get("StorageLoc", "slurm_acct_db")}
	host := get("StorageHost", "localhost")
	if host == "localhost" {
		return d, nil
	}
	d.storage = mysql.NewConfig()
	d.storage.Net, d.storage.Addr = "tcp", net.JoinHostPort(host, get("StoragePort", "3306"))
	d.storage.User, d.storage.Passwd = get("StorageUser", "root"), get("StoragePass", "")
	d.storage.Timeout, d.storage.ReadTimeout, d.storage.WriteTimeout = databaseLimit, databaseLimit, databaseLimit
	d.storage.Logger = &mysql.NopLogger{}
	var err error
	d.storage.TLS, err = storageTLS(get("StorageParameters", ""))
	return d, err
}

// storageTLS is what SSL_CA, SSL_CERT and SSL_KEY of StorageParameters ask for.
func storageTLS(parameters string) (*tls.Config, error) {
	given := map[string]string{}
	for one := range strings.SplitSeq(parameters, ",") {
		key, value, _ := strings.Cut(one, "=")
		given[strings.ToUpper(strings.TrimSpace(key))] = value
	}
	if given["SSL_CA"] == "" && given["SSL_CERT"] == "" {
		return nil, nil
	}
	// libmariadb looks at the host's name only where that is set, so VerifyConnection
	// looks at the chain alone.
	config := &tls.Config{InsecureSkipVerify: true}
	if path := given["SSL_CA"]; path != "" {
		roots, err := readRoots(path)
		if err != nil {
			return nil, fmt.Errorf("cannot use StorageParameters of %s: %w", slurmdbdConf, err)
		}
		config.VerifyConnection = signedBy(roots)
	}
	if path := given["SSL_CERT"]; path != "" {
		pair, err := tls.LoadX509KeyPair(path, given["SSL_KEY"])
		if err != nil {
			return nil, fmt.Errorf("cannot use StorageParameters of %s: %w", slurmdbdConf, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func readRoots(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("there is no certificate in %s", path)
	}
	return roots, nil
}

// signedBy accepts a server whose certificate comes from one of the roots.
func signedBy(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		between := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
}

// login logs in to the database. slurmdbd makes its database where there is none,
// so that is not asked for.
func (d dbd) login(ctx context.Context) error {
	if d.storage == nil {
		return nil
	}
	connector, err := mysql.NewConnector(d.storage)
	if err != nil {
		return fmt.Errorf("cannot reach the database %s: %w", d.storage.Addr, err)
	}
	conn, err := connector.Connect(ctx)
	if err == nil {
		return conn.Close()
	}
	if answer, is := errors.AsType[*mysql.MySQLError](err); is && !slices.Contains(refusals, answer.Number) {
		return nil // slurmdbd knows better what it can do without
	}
	return fmt.Errorf("cannot log in to the database %s: %w", d.storage.Addr, err)
}

// refusals are what slurmdbd can do nothing with either (mariadb.com, error codes).
var refusals = []uint16{
	1040, // too many connections
	1044, // access denied to the database
	1045, // access denied: a wrong user or password
	1129, // host is blocked
	1130, // host is not allowed
	1203, // too many connections of this user
	1698, // access denied, without a password
	4151, // the account is locked
}

// Options are the surroundings of a Database.
type Options struct {
	// ConfDir has slurmdbd's files, RunDir is the agent's own directory.
	ConfDir, RunDir string
	// UID and GID are SlurmUser's.
	UID, GID int
	// Upgrade is leave to convert the database of an older version. Line asks this slurmdbd for its release
	// line: "26.05".
	Upgrade bool
	// DumpDir is where the agent keeps a dump before that; empty: nowhere, so nothing may be converted.
	DumpDir string
	Line    func(context.Context) (string, error)
	// Done is closed when the agent has ended.
	Done <-chan struct{}
	// Changed reports other files: slurmdbd is to read them, or to be restarted.
	Changed func(restart bool)
	Log     func(level slog.Level, text string, attrs ...slog.Attr)
}

// Database is slurmdbd's, by its slurmdbd.conf.
type Database struct {
	Options
	copy copies.Dir
	// port is that of the slurmdbd which was started last: an edit may have named another since.
	port atomic.Pointer[string]
	// warned: the log has told of a conversion.
	warned atomic.Bool
	dumper dumper
}

// NewDatabase makes a Database. slurmdbd finds its files in a copy for SlurmUser alone, which a
// Secret's files are not.
func NewDatabase(o Options) *Database {
	return &Database{Options: o, copy: copies.Dir{
		From: o.ConfDir, To: filepath.Join(o.RunDir, "slurmdbd"), Mode: 0o600, UID: o.UID, GID: o.GID,
		Wanted: func(name string) bool { return !keyring.IsKeyFile(name) }, // which have a copy of their own
		Check:  addPassword,
	}}
}

// Dir is where slurmdbd finds its files.
func (d *Database) Dir() string { return d.copy.To }

// Open makes the copy, and keeps it up to date.
func (d *Database) Open() error {
	if _, err := d.copy.Sync(); err != nil {
		return err
	}
	before, err := d.read()
	if err != nil {
		return &exitcode.Fault{Code: exitcode.Missing, Err: err}
	}
	return d.copy.Watch(d.Done, func(changed []string, err error) {
		if err != nil {
			d.Log(slog.LevelError, "cannot follow the configuration; the last one stays", slog.Any("error", err))
			return
		}
		now, err := d.read()
		if err != nil {
			d.Log(slog.LevelError, "cannot use the changed configuration", slog.Any("error", err))
			return
		}
		d.Log(slog.LevelInfo, "the configuration has changed", slog.Any("files", changed))
		d.Changed(needsRestart(before, now, changed))
		before = now
	})
}

func (d *Database) read() (dbd, error) {
	text, err := os.ReadFile(filepath.Join(d.copy.To, slurmdbdConf))
	if err != nil {
		return dbd{}, fmt.Errorf("cannot find %s in %s: %w", slurmdbdConf, d.ConfDir, err)
	}
	return readDBD(string(text))
}

// needsRestart: SIGHUP takes neither another database nor another port nor keys.
func needsRestart(before, now dbd, changed []string) bool {
	if slices.ContainsFunc(changed, func(name string) bool { return name != slurmdbdConf }) || before.port != now.port {
		return true
	}
	a, b := before.storage, now.storage
	if a == nil || b == nil {
		return a != b
	}
	return a.Addr != b.Addr || a.User != b.User || a.Passwd != b.Passwd || (a.TLS == nil) != (b.TLS == nil)
}

// Reach succeeds when slurmdbd can log in to its database, and may open it. A refusal is an exitcode.Fault.
func (d *Database) Reach(ctx context.Context) error {
	now, err := d.read()
	if err != nil {
		return err
	}
	if err := now.login(ctx); err != nil || now.storage == nil {
		return err // a socket's database is not looked at
	}
	return d.admit(ctx, now)
}

// Starts notes with which port slurmdbd is started.
func (d *Database) Starts() {
	if now, err := d.read(); err == nil {
		d.port.Store(&now.port)
	}
}

// Confirm succeeds when the slurmdbd that was started last takes connections.
func (d *Database) Confirm(ctx context.Context) error {
	port := d.port.Load()
	if port == nil {
		return errors.New("slurmdbd has not been started")
	}
	if err := process.Answers(ctx, "tcp", net.JoinHostPort("127.0.0.1", *port)); err != nil {
		return fmt.Errorf("it does not listen on port %s yet", *port)
	}
	return nil
}

// Away says whether slurmdbd has said that it has no connection to its database. It waits for five seconds then.
func Away(line string) bool {
	return strings.Contains(line, "The database must be up when starting the MYSQL plugin")
}

// Troubled says whether a line of slurmdbd's is of trouble with its database.
func Troubled(line string) bool {
	return strings.Contains(line, "mysql") || strings.Contains(line, "database")
}
