package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// Run is the row of one run.
type Run struct {
	ID        run.ID
	RepoOwner string
	RepoName  string
	// RepoNode and IssueNode are node ids; the run belongs to them, whatever
	// owner, name or number become. Without GitHub they are others, see RunOfPlan.
	RepoNode     string
	Installation int64
	IssueNumber  int
	IssueNode    string
	Phase        run.Phase
	// EndReason is set in a terminal phase.
	EndReason run.EndReason
	// State is the loop's own state, which the store does not look into.
	State []byte
	// CancelRequestedAt is zero unless someone asked the run to stop, and
	// CancelBy says who.
	CancelRequestedAt time.Time
	CancelBy          string
	// PullNumber is the pull request that the run works on, 0 for none.
	PullNumber int
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

const runColumns = `id, repo_owner, repo_name, repo_node, installation_id, issue_number, issue_node,
	phase, end_reason, state, cancel_requested_at, cancel_by,
	pull_number, created_at, updated_at`

func scanRun(scan func(...any) error) (r Run, err error) {
	var cancel, created, updated int64
	if err := scan(&r.ID, &r.RepoOwner, &r.RepoName, &r.RepoNode, &r.Installation, &r.IssueNumber, &r.IssueNode,
		&r.Phase, &r.EndReason, &r.State, &cancel, &r.CancelBy, &r.PullNumber, &created, &updated); err != nil {
		return Run{}, err
	}
	r.CancelRequestedAt, r.CreatedAt, r.UpdatedAt = fromMicros(cancel), fromMicros(created), fromMicros(updated)
	r.State, err = unpacked(filled(r.State))
	return r, err
}

// CreateRun stores a new run. The fields of cancel are left empty whatever r says. It returns ErrRunActive where the issue has a run that is
// not at its end: an issue has at most one.
func (s *Store) CreateRun(ctx context.Context, tx *Tx, r Run) error {
	op := fmt.Sprintf("create run %s for issue %d", r.ID, r.IssueNumber)
	n, err := change(ctx, tx, op, `
		INSERT INTO runs (id, repo_owner, repo_name, repo_node, installation_id, issue_number, issue_node,
			phase, active, end_reason, state, pull_number, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (repo_node, issue_number, iif(issue_number = 0, issue_node, '')) WHERE active = 1 DO NOTHING`,
		r.ID, r.RepoOwner, r.RepoName, r.RepoNode, r.Installation, r.IssueNumber, r.IssueNode,
		r.Phase, active(r.Phase), r.EndReason, blob(r.State), r.PullNumber, micros(r.CreatedAt), micros(r.CreatedAt))
	if err == nil && n == 0 {
		return fmt.Errorf("%s: %w", op, ErrRunActive)
	}
	return err
}

// active is the stored form of "takes further steps".
func active(p run.Phase) int {
	if p.Terminal() {
		return 0
	}
	return 1
}

// Run returns the run with this id, or ErrNotFound.
func (s *Store) Run(ctx context.Context, id run.ID) (Run, error) {
	return s.oneRun(ctx, "run "+string(id), `WHERE id = ?`, id)
}

// ActiveRunByIssue returns the issue's run that is not at its end, or
// ErrNotFound.
func (s *Store) ActiveRunByIssue(ctx context.Context, repoNode string, issue int) (Run, error) {
	return s.oneRun(ctx, fmt.Sprintf("active run of issue %d", issue),
		`WHERE repo_node = ? AND issue_number = ? AND active = 1`, repoNode, issue)
}

// LatestRunByIssue returns the issue's newest run, whatever its phase, or
// ErrNotFound.
func (s *Store) LatestRunByIssue(ctx context.Context, repoNode string, issue int) (Run, error) {
	return s.oneRun(ctx, fmt.Sprintf("latest run of issue %d", issue),
		`WHERE repo_node = ? AND issue_number = ? ORDER BY created_at DESC, rowid DESC LIMIT 1`, repoNode, issue)
}

// LatestRunByPull returns the newest run that works or worked on a pull request,
// or ErrNotFound.
func (s *Store) LatestRunByPull(ctx context.Context, repoNode string, pull int) (Run, error) {
	return s.oneRun(ctx, fmt.Sprintf("latest run of pull request %d", pull),
		`WHERE repo_node = ? AND pull_number = ? AND pull_number > 0 ORDER BY created_at DESC, rowid DESC LIMIT 1`, repoNode,
		pull)
}

// FirstRun says whether no run of a repository came before this one, as far back as is kept.
func (s *Store) FirstRun(ctx context.Context, repoNode string, id run.ID) (bool, error) {
	return one(ctx, s.reader, fmt.Sprintf("look for runs before %s", id), column[bool], `
		SELECT NOT EXISTS (SELECT 1 FROM runs WHERE repo_node = ?1 AND rowid < (SELECT rowid FROM runs WHERE id = ?2))`, repoNode, id)
}

// RunsSince counts the runs of an issue that were made after a time.
func (s *Store) RunsSince(ctx context.Context, repoNode string, issue int, since time.Time) (int, error) {
	return one(ctx, s.reader, fmt.Sprintf("count runs of issue %d", issue), column[int], `
		SELECT count(*) FROM runs WHERE repo_node = ? AND issue_number = ? AND created_at > ?`, repoNode, issue, micros(since))
}

// NotePull records the pull request that a run works on.
func (s *Store) NotePull(ctx context.Context, tx *Tx, id run.ID, pull int) error {
	return changeOne(ctx, tx, "note pull request of run "+string(id), `UPDATE runs SET pull_number = ? WHERE id = ?`, pull, id)
}

// RenameRepo makes every run of a repository know it by another name, and by
// another installation where that is not 0.
func (s *Store) RenameRepo(ctx context.Context, tx *Tx, repoNode, owner, name string, installation int64) error {
	_, err := change(ctx, tx, "rename repository "+owner+"/"+name, `
		UPDATE runs SET repo_owner = ?, repo_name = ?,
			installation_id = coalesce(nullif(?, 0), installation_id)
		WHERE repo_node = ?`, owner, name, installation, repoNode)
	return err
}

func (s *Store) oneRun(ctx context.Context, op, where string, args ...any) (Run, error) {
	return one(ctx, s.reader, op, scanRun, `SELECT `+runColumns+` FROM runs `+where, args...)
}

// ActiveRuns returns every run that is not at its end, oldest first.
func (s *Store) ActiveRuns(ctx context.Context) ([]Run, error) {
	return s.runs(ctx, "active runs", `SELECT `+runColumns+` FROM runs WHERE active = 1 ORDER BY created_at, rowid`)
}

func (s *Store) runs(ctx context.Context, op, query string, args ...any) ([]Run, error) {
	return list(ctx, s.reader, op, scanRun, query, args...)
}

// Due lists what there is to work: the GUIDs of accepted deliveries that nobody has dealt
// with, oldest first, a thousand at most, and the runs that have not ended.
func (s *Store) Due(ctx context.Context) (deliveries []string, runs []run.ID, err error) {
	deliveries, err = list(ctx, s.reader, "look for deliveries that wait", column[string], `
		SELECT guid FROM deliveries WHERE processed_at = 0 ORDER BY received_at LIMIT 1000`)
	if err != nil {
		return nil, nil, err
	}
	runs, err = list(ctx, s.reader, "look for active runs", column[run.ID],
		`SELECT id FROM runs WHERE active = 1 ORDER BY created_at, rowid`)
	return deliveries, runs, err
}

// SaveState stores where the run stands.
func (s *Store) SaveState(
	ctx context.Context, id run.ID, phase run.Phase, end run.EndReason, state []byte, now time.Time,
) error {
	return s.InTx(ctx, func(tx *Tx) error { return s.SaveStateTx(ctx, tx, id, phase, end, state, now) })
}

// SaveStateTx is SaveState in a transaction, for a state that has taken in what
// the transaction settles.
func (s *Store) SaveStateTx(
	ctx context.Context, tx *Tx, id run.ID, phase run.Phase, end run.EndReason, state []byte, now time.Time,
) error {
	err := changeOne(ctx, tx, "save state of run "+string(id), `
		UPDATE runs SET phase = ?1, active = ?2, end_reason = ?3, state = ?4, updated_at = ?5,
			ended_at = CASE WHEN ?2 = 1 THEN 0 ELSE ?5 END
		WHERE id = ?6`,
		phase, active(phase), end, stored(phase, state), micros(now), id)
	if isUnique(err) { // a terminal run made active again beside a newer one
		return fmt.Errorf("save state of run %s: %w", id, ErrRunActive)
	}
	return err
}

// SpokenTo lists the newest runs of issues for which people's words wait to be taken in:
// one that has ended is in nobody's mind when the server starts.
func (s *Store) SpokenTo(ctx context.Context) ([]run.ID, error) {
	return list(ctx, s.reader, "look for what people said", column[run.ID], `
		SELECT (SELECT id FROM runs WHERE repo_node = i.repo_node AND issue_number = i.issue_number
			ORDER BY created_at DESC, rowid DESC LIMIT 1) AS newest
		FROM (SELECT DISTINCT repo_node, issue_number FROM inputs WHERE state = 'pending') i
		WHERE newest IS NOT NULL`)
}

// minPacked is from how many bytes on the state of an ended run is compressed.
const minPacked = 1 << 10

// stored is a state as the database has it: compressed once the run has ended, when
// it is seldom read again.
func stored(phase run.Phase, state []byte) []byte {
	if !phase.Terminal() || len(state) < minPacked {
		return blob(state)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	// A buffer takes everything.
	_, _ = w.Write(state)
	_ = w.Close()
	return b.Bytes()
}

// unpacked undoes stored. No state begins like a compressed one: it is JSON.
func unpacked(state []byte) ([]byte, error) {
	if !bytes.HasPrefix(state, []byte{0x1f, 0x8b}) {
		return state, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(state))
	if err != nil {
		return nil, fmt.Errorf("uncompress the state: %w", err)
	}
	state, err = io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("uncompress the state: %w", err)
	}
	return state, nil
}

// RequestCancel records that by wants the run to stop; its driver sees it at
// its next step. The first request stays. A run at its end is left alone.
func (s *Store) RequestCancel(ctx context.Context, tx *Tx, id run.ID, by string, now time.Time) error {
	return changeOne(ctx, tx, "request cancel of run "+string(id), `
		UPDATE runs
		SET cancel_requested_at = CASE WHEN active = 1 AND cancel_requested_at = 0 THEN ? ELSE cancel_requested_at END,
		    cancel_by           = CASE WHEN active = 1 AND cancel_requested_at = 0 THEN ? ELSE cancel_by END
		WHERE id = ?`, micros(now), by, id)
}
