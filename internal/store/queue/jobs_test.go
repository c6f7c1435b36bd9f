package queue

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// A wake ends only where a polling job is sure to tick the run again, and soon.
func TestEnsurePolled(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	st, err := store.Open(ctx, filepath.Join(t.TempDir(), "bot.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	q, err := Open(ctx, st, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		state rivertype.JobState // of the polling job there is; "" is none
		due   time.Duration      // from now
		want  bool
	}{
		{"none", "", 0, true},
		{"ended", rivertype.JobStateCompleted, 0, true},
		{"given up", rivertype.JobStateDiscarded, 0, true},
		{"asleep", rivertype.JobStateAvailable, maxSnooze, true},
		{"failed just now", rivertype.JobStateAvailable, 2 * maxSnooze, true},
		{"failed often", rivertype.JobStateRetryable, time.Minute, true},
		{"failed often, and nearly due", rivertype.JobStateRetryable, time.Second, true},
		{"running, perhaps for the last time", rivertype.JobStateRunning, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			id := run.ID(tc.name)
			if tc.state != "" {
				ended := tc.state == rivertype.JobStateCompleted || tc.state == rivertype.JobStateDiscarded
				finalized := sql.NullString{String: riverTime(time.Now()), Valid: ended}
				if err := st.InTx(ctx, func(tx *store.Tx) error {
					if err := q.EnqueueAdvance(ctx, tx, id); err != nil {
						return err
					}
					_, err := tx.ExecContext(ctx, `UPDATE river_job SET state = ?, scheduled_at = ?, finalized_at = ?
						WHERE args ->> 'run_id' = ?`,
						string(tc.state), riverTime(time.Now().Add(tc.due)), finalized, string(id))
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}

			got, err := q.ensurePolled(ctx, id)
			if err != nil || got != tc.want {
				t.Fatalf("polled: %v, %v; want %v", got, err, tc.want)
			}
			if !got {
				return
			}
			var n int
			if err := st.DB().QueryRowContext(ctx, `SELECT count(*) FROM river_job WHERE state = 'available' AND scheduled_at <= ?
				AND args ->> 'run_id' = ?`, riverTime(time.Now().Add(maxSnooze)), string(id)).Scan(&n); err != nil || n != 1 {
				t.Errorf("%d jobs will tick the run soon, %v; want 1", n, err)
			}
		})
	}
}

// riverTime is a time as River writes it on SQLite.
func riverTime(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05.000") }
