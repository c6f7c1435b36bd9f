package queue

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/org/ralph-action/internal/store"
)

// jobs is River on the store's database.
type jobs struct {
	*river.Client[*sql.Tx]
	driver *riversqlite.Driver
}

// openJobs prepares River's tables and gives a client.
func openJobs(ctx context.Context, st *store.Store, cfg *river.Config) (jobs, error) {
	driver := riversqlite.New(st.DB())
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: cfg.Logger})
	if err != nil {
		return jobs{}, err
	}
	if err := st.Exclusively(ctx, func(ctx context.Context) error {
		_, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	}); err != nil {
		return jobs{}, fmt.Errorf("migrate: %w", err)
	}
	c, err := river.NewClient(driver, cfg)
	if err != nil {
		return jobs{}, err
	}
	return jobs{c, driver}, nil
}

func (j jobs) insert(ctx context.Context, tx *store.Tx, args river.JobArgs) (*rivertype.JobInsertResult, error) {
	return j.InsertTx(ctx, tx.Tx, args, nil)
}

func complete(ctx context.Context, tx *store.Tx, job *rivertype.JobRow) error {
	_, err := river.JobCompleteTx[*riversqlite.Driver](ctx, tx.Tx, &river.Job[advanceArgs]{JobRow: job})
	return err
}
