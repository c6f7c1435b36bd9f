package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	// minPostgres is the oldest version that is tested, as server_version_num has it.
	minPostgres = 150000
	// pgReaders is how many connections read, and write single statements.
	pgReaders = 8
	// pgConnect is how long one attempt to connect may take.
	pgConnect = 10 * time.Second
)

// sessions is what PostgreSQL does with our connections. Transactions here are short: one
// that stands still belongs to a process that was stopped, or to a machine that was cut
// off, and must not keep the turn to write from everybody else.
func sessions() map[string]string {
	return map[string]string{
		"application_name":                    "ralph-bot",
		"timezone":                            "UTC",
		"statement_timeout":                   "60s",
		"idle_in_transaction_session_timeout": "5s",
		"tcp_keepalives_idle":                 "5",
		"tcp_keepalives_interval":             "2",
		"tcp_keepalives_count":                "3",
	}
}

// IsPostgres says whether the name of a database is the URL of one in PostgreSQL.
func IsPostgres(name string) bool {
	return strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://")
}

func openPostgres(ctx context.Context, dsn string) (_ *Store, err error) {
	where := nameOf(dsn)
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// pgx hides the password of what it can parse only.
		return nil, fmt.Errorf("open store: %s is no URL of a PostgreSQL database", where)
	}
	prepare(cfg.ConnConfig)
	for name, value := range sessions() {
		if _, set := cfg.ConnConfig.RuntimeParams[name]; !set {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	cfg.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.Password = Password(dsn) // its file may hold another one by now
		return nil
	}
	s := &Store{engine: Postgres}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open store %s: %w", where, trouble(err))
		}
	}()
	writer := cfg.Copy()
	writer.AfterConnect = s.afterConnect
	if s.writer, err = s.pgPool(ctx, writer, 1, lockWrites); err != nil {
		return nil, err
	}
	if s.spend, err = s.pgPool(ctx, cfg, 1, lockSpend); err != nil {
		return nil, errors.Join(err, s.writer.Close())
	}
	if s.reader, err = s.pgPool(ctx, cfg, pgReaders, 0); err != nil {
		return nil, errors.Join(err, s.spend.Close(), s.writer.Close())
	}
	s.single = s.reader
	_, err = versionOf(ctx, s.reader.db)
	if err == nil {
		err = s.Exclusively(ctx, s.migrate)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Reach connects to a database in PostgreSQL, changes nothing there, and gives its version.
func Reach(ctx context.Context, url string) (version int, err error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return 0, fmt.Errorf("reach %s: it is no URL of a PostgreSQL database", nameOf(url))
	}
	prepare(cfg.ConnConfig)
	db := stdlib.OpenDB(*cfg.ConnConfig)
	version, err = versionOf(ctx, db)
	if err = errors.Join(err, db.Close()); err != nil {
		return 0, fmt.Errorf("reach %s: %w", nameOf(url), trouble(err))
	}
	return version, nil
}

// Password is that of a database in PostgreSQL by now, wherever it comes from; "" where there is
// none.
func Password(url string) string {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return ""
	}
	return cfg.ConnConfig.Password
}

// prepare has connections be made to a primary, in a bounded time, and end soon after the
// machine at the other end is gone.
func prepare(cfg *pgx.ConnConfig) {
	cfg.ConnectTimeout = pgConnect
	if cfg.ValidateConnect == nil {
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	dialer := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
		Control:         boundSilence,
	}
	cfg.DialFunc = dialer.DialContext
}

// versionOf is the version of a PostgreSQL, and an error where that is too old.
func versionOf(ctx context.Context, db *sql.DB) (int, error) {
	var version int
	if err := db.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&version); err != nil {
		return 0, err
	}
	if version < minPostgres {
		return 0, fmt.Errorf("PostgreSQL %d is too old: version %d or newer is needed", version/10000, minPostgres/10000)
	}
	return version / 10000, nil
}

func (s *Store) pgPool(ctx context.Context, cfg *pgxpool.Config, size int32, lock int64) (*pool, error) {
	cfg = cfg.Copy()
	cfg.MaxConns = size
	conns, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s.conns = append(s.conns, conns)
	return newPool(stdlib.OpenDBFromPool(conns), Postgres, int(size), lock), nil
}

// Connections is PostgreSQL's pool of connections that read, for the queue; nil on SQLite.
func (s *Store) Connections() *pgxpool.Pool {
	if s.engine != Postgres {
		return nil
	}
	return s.conns[len(s.conns)-1]
}

// Connect gives a connection of its own, outside of all pools, for what lasts as long as
// it does. Only PostgreSQL has such.
func (s *Store) Connect(ctx context.Context) (*pgx.Conn, error) {
	if s.engine != Postgres {
		return nil, errors.New("connect: the database is a file")
	}
	cfg := s.Connections().Config()
	err := cfg.BeforeConnect(ctx, cfg.ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	c, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return c, nil
}

// nameOf is what can be said of a database: its host and name, without a password.
func nameOf(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return "database_url"
	}
	host := u.Host
	if host == "" {
		host = u.Query().Get("host")
	}
	return host + u.Path
}

// exclusivelyOnPostgres is Exclusively there: the lock goes with its connection.
func (s *Store) exclusivelyOnPostgres(ctx context.Context, f func(context.Context) error) (err error) {
	conn, err := s.reader.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("lock database: %w", err)
	}
	defer func() {
		if cerr := conn.Close(); cerr != nil && !errors.Is(cerr, sql.ErrConnDone) {
			err = errors.Join(err, fmt.Errorf("unlock database: %w", cerr))
		}
	}()
	// In a loop, and not by a statement that waits: the lock may be held for longer than a
	// statement may take.
	if err := untilHeld(ctx, func() (held bool, err error) {
		err = conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, lockMigrate).Scan(&held)
		return held, err
	}); err != nil {
		return err
	}
	defer func() {
		_, uerr := conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, lockMigrate)
		if uerr != nil {
			err = errors.Join(err, fmt.Errorf("unlock database: %w", uerr))
		}
	}()
	return f(ctx)
}
