package slurmdbd

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/go-sql-driver/mysql"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

// schema is what the clusters' tables of jobs look like from a release line on: they have a column. slurmdbd notes a
// version itself (convert_version_table), but that is 16 from 24.11 to 26.05, though 25.05 and 26.05 change the tables.
type schema struct{ column, from, lines string }

// schemas are Slurm's, the oldest first (create_cluster_tables in accounting_storage_mysql.c of 24.11.5, 25.05.5, 25.11.5
// and 26.05.3).
var schemas = []schema{
	{"id_job", "", "24.11 or older"},
	{"segment_size", "25.05", "25.05 or 25.11"},
	{"sluid", "26.05", "26.05"},
}

// schemaOf is the number in schemas of a release line's. That of a line after the last one is not known.
func schemaOf(line string) int {
	if line > schemas[len(schemas)-1].from {
		return len(schemas)
	}
	n := 0
	for i, s := range schemas {
		if line >= s.from {
			n = i
		}
	}
	return n
}

var errRestoring = errors.New("a dump is being restored there, or its restore was cut off: restore it from its begin (docs/run/upgrade.md)")

// admit says whether slurmdbd of this container may be started with its database. A newer one changes the tables for good,
// for which there must be leave (Upgrade), and a dump first. An older one would change them back, and lose what the newer one
// has added.
func (d *Database) admit(ctx context.Context, now dbd) error {
	line, err := d.Line(ctx)
	if err != nil {
		return fmt.Errorf("cannot tell whether this slurmdbd would convert its database: %w", err)
	}
	have, err := now.newestSchema(ctx)
	if err != nil {
		return fmt.Errorf("cannot look at the tables of the database %s: %w", now.storage.Addr, err)
	}
	own := schemaOf(line)
	switch {
	case have < 0 || have == own:
		return nil
	case have > own:
		return &exitcode.Fault{Code: exitcode.Config, Err: fmt.Errorf(
			"the database %s is of Slurm %s, and this is Slurm %s, which would take away what the newer one keeps there: run the "+
				"newer Slurm again, or restore the dump of before the upgrade (docs/run/upgrade.md)", now.loc, schemas[have].lines, line,
		)}
	case !d.Upgrade:
		return &exitcode.Fault{Code: exitcode.Config, Err: fmt.Errorf(
			"the database %s is of Slurm %s, and this is Slurm %s, which would convert it for good: set slurm.upgrade=true "+
				"(SLURMLET_UPGRADE=on) to have it, after a dump, or stay with the older Slurm (docs/run/upgrade.md)",
			now.loc, schemas[have].lines, line,
		)}
	}
	if err := d.keep(now, line); err != nil {
		return err
	}
	if !d.warned.Swap(true) {
		d.Log(slog.LevelWarn, "slurmdbd converts the database of an older version",
			slog.String("from", schemas[have].lines), slog.String("to", line))
	}
	return nil
}

// newestSchema is the newest one that a cluster's table has, -1 where there is no cluster. A conversion that was interrupted may
// have changed some of them. A database that is being restored has no schema.
func (d dbd) newestSchema(ctx context.Context) (newest int, err error) {
	s, err := d.connect(ctx, func(c *mysql.Config) {})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	newest = -1
	err = s.query(ctx, "SELECT DISTINCT column_name FROM information_schema.columns"+
		" WHERE table_schema = ? AND RIGHT(table_name, 10) = '_job_table'", func(_ driver.Rows, row []driver.Value) error {
		newest = max(newest, slices.IndexFunc(schemas, func(s schema) bool { return s.column == text(row[0]) }))
		return nil
	}, d.loc)
	if err != nil {
		return 0, err
	}
	isThere := func(driver.Rows, []driver.Value) error { return errRestoring }
	err = s.query(ctx, "SELECT 1 FROM information_schema.tables WHERE table_schema = ? AND table_name = ?", isThere, d.loc, restoring)
	return newest, err
}
