package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// takeIn has the run take in what people asked of it meanwhile. What the run
// cannot take in now stays for a later step. The state that has taken something
// in is stored together with the word that it has, so that nothing is taken in
// twice.
func (r *Reconciler) takeIn(ctx context.Context, row store.Run, d *driver,
	s loop.State) (loop.State, error) {
	if s.Progress == "" {
		return s, nil
	}
	wishes, err := r.cfg.Store.PendingInputs(ctx, row.RepoNode, row.IssueNumber, store.InputCommand)
	if err != nil {
		return s, err
	}
	repo := r.repoOf(row)
	for _, in := range wishes {
		detail, wish, err := r.wish(in)
		if err != nil {
			return s, err
		}
		next, said, err := d.engine.Steer(ctx, s, wish)
		if errors.Is(err, loop.ErrNotNow) {
			continue
		}
		state, outcome, reaction := store.InputDone, said, ghapp.ReactionYes
		if userErr, ok := errors.AsType[*run.UserError](err); ok {
			state, outcome, reaction, next = store.InputRefused, userErr.Message, ghapp.ReactionNo, s
			if err := r.comments.Answer(ctx, repo, detail.Place, in.Source, in.Author,
				userErr.Error()+"."); err != nil {
				return s, err
			}
		} else if err != nil {
			return s, err
		} else if wish.Kind == loop.WishBudget {
			if err := r.tellCaps(ctx, repo, row, detail, in, s, next); err != nil {
				return s, err
			}
		}
		next.FeedbackRounds = 0 // a person has had a part in it
		if err := r.saveWith(ctx, row.ID, next, func(tx *store.Tx) error {
			_, err := r.cfg.Store.SettleInput(ctx, tx, in.ID, state, outcome, row.ID)
			return err
		}); err != nil {
			return s, err
		}
		s = next
		if detail.Comment != 0 {
			r.comments.React(ctx, repo, detail.Comment, reaction)
		}
	}
	return r.takeInFeedback(ctx, row, d, s)
}

// tellCaps answers a command that has raised the budget where the run will not get
// all of that: the server's limits are lifted by no command.
func (r *Reconciler) tellCaps(ctx context.Context, repo *ghapp.Repo, row store.Run, d delivery.CommandDetail,
	in store.Input, was, now loop.State) error {
	var says []string
	if was.Limits.BudgetUSD+d.Command.USD > now.Limits.BudgetUSD {
		says = append(says, fmt.Sprintf("The server allows at most $%.2f for one run (`limits.budget_usd`).",
			now.Limits.BudgetUSD))
	}
	if r.cfg.Models != nil {
		shared, err := r.cfg.Models.caps(ctx, r.cfg.Store.Spend(), row, r.cfg.Now(),
			now.Limits.BudgetUSD-now.Usage.CostUSD)
		if err != nil {
			return err
		}
		says = append(says, shared...)
	}
	if len(says) == 0 {
		return nil
	}
	text := fmt.Sprintf("the run's budget is now $%.2f. %s No command can raise that.", now.Limits.BudgetUSD,
		strings.Join(says, " "))
	return r.comments.Answer(ctx, repo, d.Place, in.Source, in.Author, text)
}

// wish puts a stored command into the loop's words.
func (r *Reconciler) wish(in store.Input) (delivery.CommandDetail, loop.Wish, error) {
	var d delivery.CommandDetail
	if err := json.Unmarshal(in.Detail, &d); err != nil {
		return d, loop.Wish{}, fmt.Errorf("read command %s: %w", in.Source, err)
	}
	w := loop.Wish{By: loop.Person{Login: in.Author, ID: in.AuthorID}, TaskID: d.Command.Task}
	switch d.Command.Verb { //nolint:exhaustive // no other is left to a run
	case handlers.VerbDo:
		w.Kind, w.Task = loop.WishAdd, run.Task{Title: d.Command.Text}
	case handlers.VerbSkip:
		w.Kind = loop.WishSkip
	case handlers.VerbRetry:
		w.Kind = loop.WishRetry
	case handlers.VerbBudget:
		w.Kind, w.USD, w.CapUSD = loop.WishBudget, d.Command.USD, r.cfg.Limits(run.Limits{}).BudgetUSD
	default:
		return d, w, fmt.Errorf("command %s is none that a run takes in: %q", in.Source, d.Command.Verb)
	}
	return d, w, nil
}

// takeUp deals with what people asked of a run that has ended, or said of its
// work. wait is when to come back, 0 for not at all.
func (r *Reconciler) takeUp(ctx context.Context, row store.Run) (wait time.Duration, err error) {
	latest, err := r.cfg.Store.LatestRunByIssue(ctx, row.RepoNode, row.IssueNumber)
	if err != nil || latest.ID != row.ID {
		return 0, err // it is the later run's
	}
	left, err := r.cfg.Store.PendingInputs(ctx, row.RepoNode, row.IssueNumber, store.InputCommand)
	if err != nil {
		return 0, err
	}
	if len(left) > 0 {
		return 0, r.takeUpCommands(ctx, row, left)
	}
	return r.takeUpFeedback(ctx, row)
}

// takeUpCommands deals with what people asked of a run that ended before it could
// take it in: another run goes on from there where this one ended in a way that
// lets it, and otherwise they are told.
func (r *Reconciler) takeUpCommands(ctx context.Context, row store.Run, left []store.Input) error {
	s, err := loop.Decode(row.State)
	if err != nil {
		return err
	}
	repo := r.repoOf(row)
	if !goesOn(s) {
		return r.refuse(ctx, repo, row, left, "the run ended before I could do that ("+s.End.Sentence()+
			"). Repeat the command once the run is resumed.")
	}
	for {
		may, err := r.authorizer.Permission(ctx, repo, row.RepoNode, left[0].Author)
		if err != nil {
			return err
		}
		if may.CanWrite {
			break
		}
		if err := r.refuse(ctx, repo, row, left[:1],
			"you no longer have write access to this repository."); err != nil {
			return err
		}
		if left = left[1:]; len(left) == 0 {
			return nil
		}
	}
	first := left[0]
	outcome, err := r.goOn(ctx, row, s, handlers.Author{Login: first.Author, ID: first.AuthorID, Type: "User"})
	if err != nil || outcome == delivery.OutcomeStarted || outcome == delivery.OutcomeRunning {
		return err
	}
	return r.refuse(ctx, repo, row, left, "the run has ended, and I cannot continue it: "+outcome+".")
}

// goOn begins a run for somebody that goes on where one has ended.
func (r *Reconciler) goOn(ctx context.Context, row store.Run, s loop.State, by handlers.Author) (outcome string, err error) {
	return r.starter.Begin(ctx, r.repoOf(row), delivery.RunRequest{
		Subject: handlers.Subject{
			Owner: row.RepoOwner, Repo: row.RepoName, RepoNode: row.RepoNode, Installation: row.Installation,
			Issue: row.IssueNumber, IssueNode: row.IssueNode,
			SenderLogin: by.Login, SenderID: by.ID, SenderType: by.Type,
		},
		By: by, Plan: s.Plan, Approved: s.Approved, ApprovedBy: s.ApprovedBy, Covered: s.Covered,
		Progress: s.Progress,
	}, nil)
}

// goesOn says whether a run like this one, continued, would come to its tasks
// and so take in what is asked of it.
func goesOn(s loop.State) bool {
	switch s.End { //nolint:exhaustive // the others stop before their tasks, or were stopped
	case run.EndAllTasksComplete, run.EndMaxIterations, run.EndDeadline, run.EndBudgetExhausted,
		run.EndBlocked, run.EndStagnated:
		return s.Progress != ""
	case run.EndAwaitingPerson: // for what a task needs, with all others worked
		return s.Progress != "" && len(s.Needs) > 0
	default:
		return false
	}
}

// refuse tells people that what they asked for will not be done.
func (r *Reconciler) refuse(ctx context.Context, repo *ghapp.Repo, row store.Run, left []store.Input,
	why string) error {
	for _, in := range left {
		var d delivery.CommandDetail
		if err := json.Unmarshal(in.Detail, &d); err != nil {
			return fmt.Errorf("read command %s: %w", in.Source, err)
		}
		if err := r.comments.Answer(ctx, repo, d.Place, in.Source, in.Author, why); err != nil {
			return err
		}
		if d.Comment != 0 {
			r.comments.React(ctx, repo, d.Comment, ghapp.ReactionNo)
		}
		err := r.cfg.Store.InTx(ctx, func(tx *store.Tx) error {
			_, err := r.cfg.Store.SettleInput(ctx, tx, in.ID, store.InputRefused, "the run had ended", row.ID)
			return err
		})
		if err != nil {
			return err
		}
	}
	zerolog.Ctx(ctx).Info().Str("run", string(row.ID)).Int("inputs", len(left)).
		Msg("what was asked of an ended run is not done")
	return nil
}
