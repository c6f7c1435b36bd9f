package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"

	"github.com/org/ralph-action/internal/store"
)

const (
	// sweepDeliveries is how many deliveries one sweep inserts jobs for.
	sweepDeliveries = 1000
	// rescueBatch is how many jobs of a dead process are taken over at a time.
	rescueBatch = 1000
)

// sweep inserts the jobs that the rows of the store call for; those that exist
// already are skipped. Reading and inserting are one transaction, so that what
// another worker finishes meanwhile is not begun anew.
func (q *Queue) sweep(ctx context.Context) error {
	return q.st.InTx(ctx, func(tx *store.Tx) error {
		var many []river.InsertManyParams
		guids, err := q.st.UnprocessedDeliveries(ctx, tx, sweepDeliveries)
		if err != nil {
			return err
		}
		for _, guid := range guids {
			many = append(many, river.InsertManyParams{Args: deliveryArgs{GUID: guid}})
		}
		ids, err := q.st.ActiveRunIDs(ctx, tx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			many = append(many, river.InsertManyParams{Args: advanceArgs{Run: id}})
		}
		if len(many) == 0 {
			return nil
		}
		if _, err := q.jobs.InsertManyTx(ctx, tx.Tx, many); err != nil {
			return fmt.Errorf("insert jobs: %w", err)
		}
		return nil
	})
}

// takeOver makes the jobs and leases of processes that died available again.
func (q *Queue) takeOver(ctx context.Context) error {
	return q.peers.eachDead(func(id string) error {
		n, err := q.rescue(ctx, func(owner string) bool { return owner == id })
		if err != nil {
			return fmt.Errorf("rescue jobs of %s: %w", id, err)
		}
		if err := q.st.ReleaseOwner(ctx, id); err != nil {
			return err
		}
		q.log.Warn().Str("dead", id).Int("jobs", n).Msg("queue: took over from a dead process")
		return nil
	})
}

// takeOverLost makes the jobs and leases of processes available that left no trace: the
// database is a copy, and they run elsewhere or no more.
func (q *Queue) takeOverLost(ctx context.Context) error {
	known := map[string]bool{}
	// A process announces itself before it works anything: it is looked for after what it works
	// was seen.
	lost := func(owner string) bool {
		if !known[owner] {
			now, err := q.peers.known()
			if err != nil {
				return false // the next look finds it
			}
			known = now
		}
		return !known[owner]
	}
	n, err := q.rescue(ctx, lost)
	if err != nil {
		return fmt.Errorf("rescue jobs of unknown processes: %w", err)
	}
	rows, err := q.st.ActiveRuns(ctx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.LeaseOwner == "" || !lost(r.LeaseOwner) {
			continue
		}
		if err := q.st.ReleaseOwner(ctx, r.LeaseOwner); err != nil {
			return err
		}
	}
	if n > 0 {
		q.log.Warn().Int("jobs", n).Msg("queue: took over from processes that are not known here")
	}
	return nil
}

// rescue does for the jobs of processes that are lost what River does for any job
// after rescueAfter. Nothing else ends a job that is recorded as running, and
// while it is, its uniqueness keeps a new one out.
func (q *Queue) rescue(ctx context.Context, lost func(owner string) bool) (n int, err error) {
	exec := q.jobs.driver.GetExecutor()
	now := time.Now()
	var after int64
	for {
		jobs, err := exec.JobGetStuck(ctx, &riverdriver.JobGetStuckParams{
			AfterID: after, Max: rescueBatch, StuckHorizon: now.Add(time.Hour), // that is, every running job
		})
		if err != nil {
			return n, err
		}
		var p riverdriver.JobRescueManyParams
		for _, job := range jobs {
			after = job.ID
			if len(job.AttemptedBy) == 0 || !lost(job.AttemptedBy[len(job.AttemptedBy)-1]) {
				continue
			}
			entry, err := json.Marshal(rivertype.AttemptError{
				At: now, Attempt: job.Attempt, Error: "the process died that worked the job",
			})
			if err != nil {
				return n, err
			}
			p.ID = append(p.ID, job.ID)
			p.Error = append(p.Error, entry)
			p.FinalizedAt = append(p.FinalizedAt, nil)
			p.ScheduledAt = append(p.ScheduledAt, now)
			p.State = append(p.State, string(rivertype.JobStateAvailable))
		}
		if len(p.ID) > 0 {
			if _, err := exec.JobRescueMany(ctx, &p); err != nil {
				return n, err
			}
			n += len(p.ID)
		}
		if len(jobs) < rescueBatch {
			return n, nil
		}
	}
}
