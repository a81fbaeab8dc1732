package slurmdbd

import (
	"bufio"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// stalled is how long a database may say nothing in the middle of a dump.
	stalled = 5 * time.Minute
	// statementSize bounds the INSERT of several rows, in bytes: every server takes as much.
	statementSize = 1 << 20
	// followEach is how often the log hears of a dump.
	followEach = time.Minute
	// restoring is a table that is there while a dump is being restored. slurmdbd is not started on half of a database.
	restoring = "slurmlet_restoring"
)

// session is a connection to the database's server.
type session struct{ driver.Conn }

// connect logs in to the server, as change has it.
func (d dbd) connect(ctx context.Context, change func(*mysql.Config)) (session, error) {
	storage := d.storage.Clone()
	storage.InterpolateParams = true
	change(storage)
	connector, err := mysql.NewConnector(storage)
	if err != nil {
		return session{}, err
	}
	conn, err := connector.Connect(ctx)
	return session{conn}, err
}

// openSession sets what the text of values depends on, and begins the transaction.
func (d dbd) openSession(ctx context.Context) (session, error) {
	s, err := d.connect(ctx, func(c *mysql.Config) {
		c.DBName, c.ReadTimeout, c.WriteTimeout = d.loc, stalled, stalled
		c.Params = map[string]string{
			"sql_mode": "''", "time_zone": "'+00:00'", "sql_quote_show_create": "1", "net_write_timeout": "3600",
		}
	})
	if err != nil {
		return session{}, err
	}
	for _, text := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"} {
		if err := s.query(ctx, text, nil); err != nil {
			return session{}, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// query has each take the rows one by one, as they come. A row is each's until it returns.
func (s session) query(ctx context.Context, text string, each func(rows driver.Rows, row []driver.Value) error, args ...string) error {
	asks, can := s.Conn.(driver.QueryerContext)
	if !can {
		return errors.ErrUnsupported
	}
	var values []driver.NamedValue
	for i, a := range args {
		values = append(values, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	rows, err := asks.QueryContext(ctx, text, values)
	if err != nil {
		return err
	}
	row := make([]driver.Value, len(rows.Columns()))
	for len(row) > 0 {
		if err = rows.Next(row); err != nil {
			break
		}
		if err = each(rows, row); err != nil {
			return err // the session is good for nothing but its end
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return rows.Close()
}

// writeSQL writes the database as SQL that `mariadb` and `mysql` take, row by row. Views, triggers and routines are not in
// it: slurmdbd has no views and triggers, and makes its routines anew when it starts.
func (p *dumper) writeSQL(ctx context.Context, now dbd, to io.Writer, line string, follow func()) error {
	s, err := now.openSession(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	tables, err := p.tables(ctx, s, now.loc)
	if err == nil && len(tables) == 0 {
		err = errors.New("the server tells of no tables in it") // it has those of an older Slurm
	}
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(to, 1<<16)
	fmt.Fprintf(out, "-- %s, dumped by slurmlet before Slurm %s converts it\n"+
		"SET NAMES utf8mb4;\n"+
		"SET time_zone='+00:00', foreign_key_checks=0, unique_checks=0, sql_mode='NO_AUTO_VALUE_ON_ZERO';\n"+
		"CREATE TABLE %s (unfinished INT);\n", now.loc, line, restoring)
	last := time.Now()
	for _, table := range tables {
		err := p.writeTable(ctx, s, out, table, func() {
			if time.Since(last) > followEach {
				last = time.Now()
				follow()
			}
		})
		if err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
	}
	fmt.Fprintf(out, "DROP TABLE %s;\n-- the dump is complete\n", restoring)
	return out.Flush()
}

// tables are their names, and the estimate of all rows is noted.
func (p *dumper) tables(ctx context.Context, s session, loc string) (names []string, err error) {
	var about int64
	err = s.query(ctx, "SELECT table_name, CAST(COALESCE(table_rows, 0) AS CHAR) FROM information_schema.tables WHERE table_schema = ?"+
		" AND table_type = 'BASE TABLE' ORDER BY table_name", func(_ driver.Rows, row []driver.Value) error {
		n, _ := strconv.ParseInt(text(row[1]), 10, 64) // it is an estimate
		about += n
		names = append(names, text(row[0]))
		return nil
	}, loc)
	p.lock.Lock()
	defer p.lock.Unlock()
	p.status.About = about
	return names, err
}

// writeTable writes a table and its rows. progress is called after each statement.
func (p *dumper) writeTable(ctx context.Context, s session, out *bufio.Writer, table string, progress func()) error {
	name := "`" + strings.ReplaceAll(table, "`", "``") + "`"
	err := s.query(ctx, "SHOW CREATE TABLE "+name, func(_ driver.Rows, row []driver.Value) error {
		_, err := fmt.Fprintf(out, "DROP TABLE IF EXISTS %s;\n%s;\n", name, text(row[1]))
		return err
	})
	if err != nil {
		return err
	}
	var statement []byte
	end := func() error {
		if len(statement) == 0 {
			return nil
		}
		_, err := out.Write(append(statement, ";\n"...))
		statement = statement[:0]
		progress()
		return err
	}
	var binary []bool
	err = s.query(ctx, "SELECT * FROM "+name, func(rows driver.Rows, row []driver.Value) error {
		if binary == nil {
			binary = binaryColumns(rows)
		}
		if len(statement) == 0 {
			statement = append(statement, "INSERT INTO "+name+" VALUES\n"...)
		} else {
			statement = append(statement, ",\n"...)
		}
		for i, value := range row {
			separator := byte(',')
			if i == 0 {
				separator = '('
			}
			var err error
			if statement, err = appendValue(append(statement, separator), value, binary[i]); err != nil {
				return err
			}
		}
		statement = append(statement, ')')
		p.rows.Add(1)
		if len(statement) < statementSize {
			return nil
		}
		return end()
	})
	if err != nil {
		return err
	}
	return end()
}

// binaryColumns says which columns hold bytes in no character set.
func binaryColumns(rows driver.Rows) []bool {
	binary := make([]bool, len(rows.Columns()))
	types, _ := rows.(driver.RowsColumnTypeDatabaseTypeName)
	for i := range binary {
		name := types.ColumnTypeDatabaseTypeName(i)
		binary[i] = strings.Contains(name, "BLOB") || strings.Contains(name, "BINARY") || name == "BIT" || name == "GEOMETRY"
	}
	return binary
}

// appendValue appends a value as SQL has it.
func appendValue(to []byte, value driver.Value, binary bool) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(to, "NULL"...), nil
	case int64:
		return strconv.AppendInt(to, v, 10), nil
	case uint64:
		return strconv.AppendUint(to, v, 10), nil
	case float32:
		return strconv.AppendFloat(to, float64(v), 'g', -1, 32), nil
	case float64:
		return strconv.AppendFloat(to, v, 'g', -1, 64), nil
	case []byte:
		if binary && len(v) > 0 {
			return fmt.Appendf(to, "0x%x", v), nil
		}
		return appendQuoted(to, v), nil
	}
	return to, fmt.Errorf("cannot write a value of the type %T", value)
}

// appendQuoted appends a text as one line.
func appendQuoted(to, value []byte) []byte {
	to = append(to, '\'')
	for _, c := range value {
		switch c {
		case 0:
			to = append(to, `\0`...)
		case '\n':
			to = append(to, `\n`...)
		case '\r':
			to = append(to, `\r`...)
		case 0x1a:
			to = append(to, `\Z`...)
		case '\'', '\\':
			to = append(to, '\\', c)
		default:
			to = append(to, c)
		}
	}
	return append(to, '\'')
}

func text(value driver.Value) string {
	b, _ := value.([]byte)
	return string(b)
}
