package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// A run without GitHub is a row like any other: RepoNode is the path of its
// checkout, IssueNumber 0, and IssueNode the key of its plan.

const ofPlan = `WHERE repo_node = ? AND issue_number = 0 AND issue_node = ?`

// RunOfPlan returns the run that a plan had last in a checkout, or ErrNotFound.
func (s *Store) RunOfPlan(ctx context.Context, checkout, plan string) (Run, error) {
	return s.oneRun(ctx, "run of plan "+plan, ofPlan, checkout, plan)
}

// RunsOfCheckout returns the last run of each plan in a checkout, the oldest first.
func (s *Store) RunsOfCheckout(ctx context.Context, checkout string) ([]Run, error) {
	return s.runs(ctx, "runs in "+checkout,
		`SELECT `+runColumns+` FROM runs WHERE repo_node = ? AND issue_number = 0 ORDER BY created_at, rowid`, checkout)
}

// ReplaceRun stores a new run of a plan, and forgets the runs that the plan had
// before, with what was noted of them.
func (s *Store) ReplaceRun(ctx context.Context, r Run) error {
	err := s.InTx(ctx, func(tx *Tx) error {
		ids, err := list(ctx, tx, "earlier runs", column[run.ID], `SELECT id FROM runs `+ofPlan, r.RepoNode, r.IssueNode)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := forgetRun(ctx, tx, id); err != nil {
				return err
			}
		}
		return s.CreateRun(ctx, tx, r)
	})
	if err != nil {
		return fmt.Errorf("begin run %s: %w", r.ID, err)
	}
	return nil
}

// forgetRun deletes a run and what it spent. The names of
// its starts begin with its id.
func forgetRun(ctx context.Context, tx *Tx, id run.ID) error {
	const starts = `(SELECT name FROM spend_starts WHERE name >= ?1 || '-' AND name < ?1 || '.')`
	for _, query := range []string{
		`DELETE FROM spend_models WHERE start IN ` + starts,
		`DELETE FROM spend_refusals WHERE start IN ` + starts,
		`DELETE FROM spend_hosts WHERE start IN ` + starts,
		`DELETE FROM spend_starts WHERE name IN ` + starts,
		`DELETE FROM spend_totals WHERE scope = 'run:' || ?1
			OR scope >= 'task:' || ?1 || '/' AND scope < 'task:' || ?1 || '0'`,
		`DELETE FROM runs WHERE id = ?1`,
	} {
		if _, err := tx.ExecContext(ctx, query, string(id)); err != nil {
			return fmt.Errorf("forget run %s: %s: %w", id, strings.Fields(query)[2], err)
		}
	}
	return nil
}
