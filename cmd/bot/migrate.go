//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
	"github.com/org/ralph-action/internal/store/queue"
)

// migrateCmd is `bot migrate`.
type migrateCmd struct {
	To      string `required:"" help:"The database to write to, such as postgres://ralph@db.example.com/ralph; its password is in PGPASSWORD or PGPASSFILE." placeholder:"URL"`
	Replace bool   `help:"Empty that database first, if it holds something else."`
	Config  string `default:"ralph.yaml" help:"The server's configuration (default: ${default})." placeholder:"FILE" type:"path"`
}

// Run copies a server's database into PostgreSQL. The server must not run.
func (c *migrateCmd) Run(ctx bound, io stdio) (err error) {
	cfg, err := config.ReadServer(c.Config, os.ReadFile)
	if err != nil {
		return err
	}
	if cfg.DatabaseURL != "" {
		return &run.UserError{
			Message: "the server's database is in PostgreSQL already",
			Hint:    "take database_url out of " + c.Config + " to copy the one in data_dir",
		}
	}
	if !store.IsPostgres(c.To) {
		return &run.UserError{
			Message: "--to is no URL of a PostgreSQL database", Hint: "for example --to postgres://ralph@db.example.com/ralph",
		}
	}
	if serverAnswers(ctx, cfg.DataDir) {
		return &run.UserError{
			Message: "the server is running, and what it writes meanwhile would be lost",
			Hint:    "stop it first; runs go on where they are when it starts again",
		}
	}
	from, err := openServerStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := store.Open(ctx, c.To)
	if err != nil {
		return unusableStore(err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := nobodyWorks(ctx, to); err != nil {
		return err
	}
	node, err := nodeName(cfg.DataDir)
	if err != nil {
		return err
	}
	done, err := store.Copy(ctx, from, to, node, c.Replace)
	if errors.Is(err, store.ErrNotEmpty) {
		return &run.UserError{
			Message: "the database that --to names holds something else", Err: err,
			Hint: "name an empty one, or pass --replace to lose what is there",
		}
	}
	if err != nil {
		return err
	}
	for _, t := range done {
		fmt.Fprintf(io.out, "%9d  %-15s  sha256:%s\n", t.Rows, t.Table, t.SHA256[:16])
	}
	fmt.Fprintf(io.out, "All rows are there. Set database_url in %s and start the server; %s stays as it is.\n",
		run.PrintableLine(c.Config), run.PrintableLine(cfg.Database()))
	return nil
}

// nobodyWorks is an error while a server works on a database in PostgreSQL.
func nobodyWorks(ctx context.Context, st *store.Store) error {
	node, err := queue.Working(ctx, st)
	if err != nil {
		return err
	}
	if node != "" {
		return &run.UserError{
			Message: "the server " + run.PrintableLine(node) + " works on that database, or did a moment ago",
			Hint:    "stop it, and wait for 15 seconds if it was killed",
		}
	}
	return nil
}

// serverAnswers says whether a server with this data directory runs.
func serverAnswers(ctx context.Context, dataDir string) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", adminSocket(dataDir))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
