package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// InputKind is what sort of thing a person said.
type InputKind string

// The kinds of inputs.
const (
	// InputCommand is a command of the first line of a comment.
	InputCommand InputKind = "command"
	// InputAnswer is a comment on an issue whose run waits for answers.
	InputAnswer InputKind = "answer"
	// InputReview is a review of the pull request, as it was submitted.
	InputReview InputKind = "review"
	// InputReviewComment is a comment on a line of the pull request.
	InputReviewComment InputKind = "review_comment"
	// InputThread says that a thread of the pull request was resolved or opened
	// again.
	InputThread InputKind = "thread"
	// InputChecks says that checks of others failed on the pull request's head.
	InputChecks InputKind = "checks"
)

// InputState is what has become of an input.
type InputState string

// The states of an input.
const (
	// InputPending: accepted, and to be taken in by a run.
	InputPending InputState = "pending"
	// InputDone: taken in, or carried out at once.
	InputDone InputState = "done"
	// InputRefused: its author may not, or it could not be carried out.
	InputRefused InputState = "refused"
	// InputWithdrawn: its source was edited or deleted before it was taken in.
	InputWithdrawn InputState = "withdrawn"
)

// Input is something a person said to a run, frozen as it was then.
type Input struct {
	ID       int64
	RepoNode string
	// Issue is the issue that the run is about, also where the input came from
	// its pull request.
	Issue int
	Kind  InputKind
	// Source names what it came from ("comment:123"), and SourceID is GitHub's id of
	// that.
	Source   string
	SourceID int64
	AuthorID int64
	Author   string
	// Role is the author's in the repository when the event was worked.
	Role string
	Text string
	// Detail is what the kind needs besides, as JSON.
	Detail []byte
	State  InputState
	// Outcome says in a few words what became of it, Run which run took it in.
	Outcome    string
	Run        run.ID
	ReceivedAt time.Time
}

const inputColumns = `id, repo_node, issue_number, kind, source, source_id, author_id, author, role,
	text, detail, state, outcome, run_id, received_at`

func scanInput(scan func(...any) error) (Input, error) {
	var in Input
	var received int64
	err := scan(&in.ID, &in.RepoNode, &in.Issue, &in.Kind, &in.Source, &in.SourceID, &in.AuthorID, &in.Author,
		&in.Role, &in.Text, &in.Detail, &in.State, &in.Outcome, &in.Run, &received)
	in.Detail = filled(in.Detail)
	in.ReceivedAt = fromMicros(received)
	return in, err
}

// AddInput stores what a person said, in the transaction that deals with the
// delivery it came by. fresh is false, and nothing is changed, where something
// from that source is stored already: a source speaks once. ID is set by the store;
// an empty state is InputPending.
func (s *Store) AddInput(ctx context.Context, tx *Tx, in Input) (id int64, fresh bool, err error) {
	if in.State == "" {
		in.State = InputPending
	}
	err = tx.QueryRowContext(ctx, `
		INSERT INTO inputs (repo_node, issue_number, kind, source, source_id, author_id, author, role,
			text, detail, state, outcome, run_id, received_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (repo_node, source) DO NOTHING
		RETURNING id`,
		in.RepoNode, in.Issue, in.Kind, in.Source, in.SourceID, in.AuthorID, in.Author, in.Role,
		in.Text, blob(in.Detail), in.State, in.Outcome, in.Run, micros(in.ReceivedAt)).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("add input %s: %w", in.Source, err)
	}
	return id, true, nil
}

// PendingInputs are the inputs of an issue that no run has taken in yet, in the
// order in which they came; of the given kinds, or of all where none is given.
func (s *Store) PendingInputs(ctx context.Context, repoNode string, issue int, kinds ...InputKind) ([]Input, error) {
	of, args := among("kind", kinds)
	// #nosec G202 -- what is put in is of among, which writes marks alone
	return list(ctx, s.reader, fmt.Sprintf("pending inputs of issue %d", issue), scanInput, `
		SELECT `+inputColumns+` FROM inputs
		WHERE repo_node = ? AND issue_number = ? AND state = 'pending' AND `+of+` ORDER BY id`,
		append([]any{repoNode, issue}, args...)...)
}

// among is the condition that a column has one of some values, and the values as
// arguments; no values are all of them.
func among[T ~string](column string, values []T) (string, []any) {
	if len(values) == 0 {
		return "1 = 1", nil
	}
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	return column + " IN (?" + strings.Repeat(", ?", len(values)-1) + ")", args
}

// InputBySource returns what came from a source, or ErrNotFound.
func (s *Store) InputBySource(ctx context.Context, repoNode, source string) (Input, error) {
	return one(ctx, s.reader, "input "+source, scanInput,
		`SELECT `+inputColumns+` FROM inputs WHERE repo_node = ? AND source = ?`, repoNode, source)
}

// LaterInput says whether one of the given outcomes was recorded for an input
// of the same issue that was said after in, and is done.
func (s *Store) LaterInput(ctx context.Context, in Input, outcomes ...string) (bool, error) {
	of, args := among("outcome", outcomes)
	return one(ctx, s.reader, "look for later inputs", column[bool], `
		SELECT EXISTS (SELECT 1 FROM inputs WHERE repo_node = ? AND issue_number = ? AND kind = ? AND source_id > ? AND state = 'done'
			AND `+of+`)`, append([]any{in.RepoNode, in.Issue, in.Kind, in.SourceID}, args...)...)
}

// SettleInput records what became of a pending input. One that is settled stays
// as it is, which settled tells.
func (s *Store) SettleInput(
	ctx context.Context, tx *Tx, id int64, state InputState, outcome string, by run.ID,
) (settled bool, err error) {
	n, err := change(ctx, tx, fmt.Sprintf("settle input %d", id), `
		UPDATE inputs SET state = ?, outcome = ?, run_id = ? WHERE id = ? AND state = 'pending'`,
		state, outcome, by, id)
	return n == 1, err
}

// InputCount counts what was said since a time: by a person anywhere, or by
// anybody about an issue.
type InputCount struct {
	AuthorID int64
	RepoNode string
	Issue    int
	Kinds    []InputKind
	Since    time.Time
}

// CountInputs counts the inputs that c describes, refused ones included.
func (s *Store) CountInputs(ctx context.Context, c InputCount) (int, error) {
	of, args := among("kind", c.Kinds)
	about, by := `author_id = ?`, []any{micros(c.Since), c.AuthorID}
	if c.AuthorID == 0 {
		about, by = `repo_node = ? AND issue_number = ?`, []any{micros(c.Since), c.RepoNode, c.Issue}
	}
	return one(ctx, s.reader, "count inputs", column[int],
		`SELECT count(*) FROM inputs WHERE received_at > ? AND `+about+` AND `+of, append(by, args...)...)
}
