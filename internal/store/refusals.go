package store

import (
	"context"
	"fmt"
)

// Refused records that a person was refused on an issue, and why. first is true
// once per person and issue: only then is the refusal worth a comment, or
// toggling a label would make the bot talk without end.
func (s *Store) Refused(
	ctx context.Context, tx *Tx, repoNode string, issue int, person, reason string,
) (first bool, err error) {
	res, err := tx.ExecContext(ctx, `
		INSERT INTO refusals (repo_node, issue_number, person, reason) VALUES (?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, repoNode, issue, person, reason)
	if err != nil {
		return false, fmt.Errorf("record refusal: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("record refusal: %w", err)
	}
	return n == 1, nil
}
