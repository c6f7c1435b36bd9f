package delivery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

const (
	outcomeForeign   = "not about a run of ours"
	outcomeSeen      = "taken in before"
	outcomeAnswered  = "answered"
	outcomeCommanded = "carried out"
	outcomeKept      = "kept for the run"
	outcomeWithdrawn = "withdrawn"
	outcomeTold      = "told"
)

// CommandDetail is the Detail of a store.InputCommand.
type CommandDetail struct {
	Command handlers.Command `json:"command"`
	// Place is the issue or pull request where it was said, Comment the comment.
	Place   int   `json:"place"`
	Comment int64 `json:"comment,omitempty"`
}

// reply is what becomes of a command.
type reply struct {
	state    store.InputState
	reaction string
	// text answers it in words, "" for none.
	text string
	// run is the run that is to take it in.
	run run.ID
	// write goes into the transaction that settles the command.
	write func(tx *store.Tx) error
}

func no(text string) reply {
	return reply{state: store.InputRefused, reaction: ghapp.ReactionNo, text: text}
}

// noCommand answers what begins like a command and is none.
func noCommand(problem string) reply { return no(problem + " `/ralph help` lists all commands.") }

func yes() reply { return reply{state: store.InputDone, reaction: ghapp.ReactionYes} }

// order is a command with all that is known about it.
type order struct {
	handlers.CommandIntent

	repo  *ghapp.Repo
	place int
	by    Standing
	input store.Input
	// last is the newest run of the issue, zero for none, and was its state.
	last store.Run
	was  loop.State
}

// active says whether there is a run at work.
func (o *order) active() bool { return o.last.ID != "" && !o.last.Phase.Terminal() }

// workCommand carries out what a person says, or leaves it to the run, and answers
// with a reaction.
func (r *Receiver) workCommand(ctx context.Context, d store.Delivery, in handlers.CommandIntent) error {
	if in.SenderType != "User" {
		// Bots that answer each other would never end.
		return r.decide(ctx, d.GUID, OutcomeRefused, in.Subject,
			refused("/ralph "+string(in.Command.Verb), string(DeniedBot)), nil)
	}
	if in.Command.Verb == handlers.VerbDo {
		// What people do not see is not what they asked for.
		text, _ := plan.Sanitize(in.Command.Text)
		if in.Command.Text = strings.TrimSpace(text); in.Command.Text == "" {
			in.Problem = "The task has no visible text."
		}
	}
	o := order{CommandIntent: in, repo: r.repoOf(in.Subject), place: max(in.Issue, in.Pull)}
	known, err := r.findRun(ctx, &o)
	if err != nil {
		return err
	}
	if !known && in.Pull > 0 {
		return r.mark(ctx, d.GUID, outcomeForeign, nil)
	}
	source := handlers.CommentSource(in.Comment.ID)
	if _, err := r.Store.InputBySource(ctx, in.RepoNode, source); err == nil {
		return r.mark(ctx, d.GUID, outcomeSeen, nil)
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	past, err := r.recall(ctx, d, in.Subject, func(ctx context.Context, repo *ghapp.Repo) (bool, error) {
		return repo.ReactedToComment(ctx, in.Comment.ID)
	})
	if err != nil || past {
		return err
	}
	what, err := r.Authorizer.TooManyCommands(ctx, o.Subject, o.Issue)
	if err != nil {
		return err
	}
	if o.by, err = r.Authorizer.Standing(ctx, o.repo, d.ReceivedAt, in.Subject, in.Comment.Author); err != nil {
		return err
	}
	switch {
	case what != "" && o.by.Denied == "":
		if err := r.reportLimit(ctx, o.repo, o.place, o.Issue, what); err != nil {
			return err
		}
		return r.decide(ctx, d.GUID, outcomeTooOften, o.Subject, refused(o.action(), what), nil)
	case what != "":
		return r.decide(ctx, d.GUID, outcomeTooOften, o.Subject, refused(o.action(), what), nil)
	}
	if o.input, err = r.commandInput(source, d, o); err != nil {
		return err
	}
	if o.by.Denied != "" {
		return r.refuseCommand(ctx, d.GUID, o)
	}
	later, err := r.isOvertaken(ctx, o)
	if err != nil {
		return err
	}
	var rep reply
	switch {
	case in.Problem != "":
		rep = noCommand(in.Problem)
		rep.write = r.answerBeside(ctx, o)
	case later:
		rep = no("A later command was already carried out.")
	default:
		if rep, err = r.carryOut(ctx, o); err != nil {
			return err
		}
	}
	return r.settle(ctx, d.GUID, o, rep)
}

// besideSource ends the name of the source of an answer that a comment gives beside something else.
const besideSource = ":answer"

// answerBeside keeps what a comment says beside something that is no command, where the run
// waits for answers: it must not be lost with that.
func (r *Receiver) answerBeside(ctx context.Context, o order) func(tx *store.Tx) error {
	if !o.Beside || o.Pull > 0 || o.last.EndReason != run.EndAwaitingPerson || len(o.was.Questions) == 0 {
		return nil
	}
	return func(tx *store.Tx) error {
		answer := o.input
		answer.Kind, answer.Source, answer.State, answer.Outcome = store.InputAnswer, o.input.Source+besideSource, "", ""
		answer.Text, answer.Detail = o.Comment.Body, []byte("{}")
		_, _, err := r.Store.AddInput(ctx, tx, answer)
		return err
	}
}

// findRun finds the run that an order is about, and with it the issue.
func (r *Receiver) findRun(ctx context.Context, o *order) (known bool, err error) {
	row, err := r.LastRun(ctx, o.Subject)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	o.last = row
	o.Issue, o.IssueNode = row.IssueNumber, row.IssueNode
	o.was, err = loop.Decode(row.State)
	return true, err
}

func (r *Receiver) commandInput(source string, d store.Delivery, o order) (store.Input, error) {
	detail, err := json.Marshal(CommandDetail{Command: o.Command, Place: o.place, Comment: o.Comment.ID})
	if err != nil {
		return store.Input{}, fmt.Errorf("encode a command: %w", err)
	}
	line, _, _ := strings.Cut(o.Comment.Body, "\n")
	return store.Input{
		RepoNode: o.RepoNode, Issue: o.Issue, Kind: store.InputCommand, Source: source, SourceID: o.Comment.ID,
		AuthorID: o.SenderID, Author: o.SenderLogin, Role: o.by.Role, Text: line, Detail: detail,
		ReceivedAt: d.ReceivedAt,
		Outcome:    string(o.Command.Verb),
	}, nil
}

// refuseCommand says why somebody is not heard: in words once, and by a reaction
// each time.
func (r *Receiver) refuseCommand(ctx context.Context, guid string, o order) error {
	if err := r.Comments.Comment(ctx, o.repo, o.place, r.denialOccasion(o.Subject, o.by),
		r.denialText(o.Subject, o.by, o.Comment.Author, true)); err != nil {
		return err
	}
	r.Comments.React(ctx, o.repo, o.Comment.ID, ghapp.ReactionNo)
	return r.refuseInput(ctx, guid, o)
}

// refuseInput records that whoever gave an order may not.
func (r *Receiver) refuseInput(ctx context.Context, guid string, o order) error {
	o.input.State, o.input.Outcome = store.InputRefused, string(o.by.Denied)
	d := refused(o.action(), why(o.by))
	return r.decide(ctx, guid, OutcomeRefused, o.Subject, d, func(tx *store.Tx) error {
		_, _, err := r.Store.AddInput(ctx, tx, o.input)
		return err
	})
}

// settle answers an order and records what became of it.
func (r *Receiver) settle(ctx context.Context, guid string, o order, rep reply) error {
	if o.Comment.ID != 0 && rep.reaction != "" {
		r.Comments.React(ctx, o.repo, o.Comment.ID, rep.reaction)
	}
	if err := r.Comments.Answer(ctx, o.repo, o.place, o.input.Source, o.SenderLogin, rep.text); err != nil {
		return err
	}
	outcome := outcomeCommanded
	if rep.state == store.InputRefused {
		outcome = outcomeAnswered
	}
	// Who asks may; what they ask for may still be impossible.
	d := allowed(o.action(), cmp.Or(rep.text, why(o.by)))
	return r.decide(ctx, guid, outcome, o.Subject, d, func(tx *store.Tx) error {
		o.input.State, o.input.Run = rep.state, rep.run
		_, fresh, err := r.Store.AddInput(ctx, tx, o.input)
		if err != nil || !fresh || rep.write == nil {
			return err
		}
		return rep.write(tx)
	})
}

// isOvertaken says whether a later command to start or stop was carried out before
// this one: deliveries come in any order.
func (r *Receiver) isOvertaken(ctx context.Context, o order) (bool, error) {
	switch o.Command.Verb { //nolint:exhaustive // the others may come in any order
	case handlers.VerbStop, handlers.VerbStart, handlers.VerbPlan, handlers.VerbResume, handlers.VerbApprove:
	default:
		return false, nil
	}
	return r.Store.LaterInput(ctx, o.input, string(handlers.VerbStop), string(handlers.VerbStart),
		string(handlers.VerbPlan), string(handlers.VerbResume), string(handlers.VerbApprove))
}

// carryOut does what the command says, as far as that is to be done here.
func (r *Receiver) carryOut(ctx context.Context, o order) (reply, error) {
	switch o.Command.Verb {
	case handlers.VerbHelp:
		return reply{state: store.InputDone, reaction: ghapp.ReactionYes, text: help(r.Decoder.Label)}, nil
	case handlers.VerbStatus:
		return r.status(o)
	case handlers.VerbStop:
		return r.stopByCommand(ctx, o), nil
	case handlers.VerbStart:
		if o.Pull > 0 {
			return r.resume(ctx, o)
		}
		return r.startByCommand(ctx, o, "")
	case handlers.VerbPlan:
		return r.startByCommand(ctx, o, run.ModePlan)
	case handlers.VerbApprove:
		return r.approve(ctx, o)
	case handlers.VerbResume:
		return r.resume(ctx, o)
	case handlers.VerbRetry, handlers.VerbSkip, handlers.VerbDo, handlers.VerbBudget:
		return r.steerLater(ctx, o)
	default:
		return reply{}, fmt.Errorf("unknown command %q", o.Command.Verb)
	}
}

func help(label string) string {
	var usages []publish.Usage
	for _, u := range handlers.Usages() {
		usages = append(usages, publish.Usage{Form: u.Form, Does: u.Does})
	}
	return publish.HelpText(usages, label)
}

func (r *Receiver) status(o order) (reply, error) {
	rep := yes()
	if o.last.ID == "" {
		rep.text = "No run has started here yet. Comment `/ralph start` to start one."
		return rep, nil
	}
	p := publish.Publisher{GitHub: o.repo, Issue: o.Issue, Agent: r.AgentName, Mask: r.Mask, Label: r.Decoder.Label}
	v, err := p.View(o.was)
	if err != nil {
		return reply{}, err
	}
	rep.text = publish.StatusText(v, o.last.PullNumber)
	return rep, nil
}

func (r *Receiver) stopByCommand(ctx context.Context, o order) reply {
	if !o.active() {
		return no("There is no run to stop.")
	}
	rep := yes()
	rep.write = func(tx *store.Tx) error {
		return r.cancel(ctx, tx, o.last.ID, "`/ralph stop` by "+o.SenderLogin)
	}
	return rep
}

// startByCommand starts a run on the issue as it reads in the event, together
// with the answers that were given to the bot's questions.
func (r *Receiver) startByCommand(ctx context.Context, o order, mode run.Mode) (reply, error) {
	if rep, err := r.refuseBusy(ctx, o); err != nil || rep.state != "" {
		return rep, err
	}
	w := RunRequest{Subject: o.Subject, By: o.by.As, Mode: mode}
	w.Approved, w.ApprovedBy, w.Covered = o.was.Approved, o.was.ApprovedBy, o.was.Covered
	var answers []store.Input
	if o.Pull > 0 { // the pull request is not what was asked for
		w.Plan, w.Progress = o.was.Plan, o.was.Progress
	} else {
		var err error
		if answers, err = r.Store.PendingInputs(ctx, o.RepoNode, o.Issue, store.InputAnswer); err != nil {
			return reply{}, err
		}
		w.Text = handlers.Text{Title: o.Text.Title, Body: o.Text.Body}
		w.Plan, err = plan.FromIssue(o.Text.Title, withAnswers(o.Text.Body, answers))
		if errors.Is(err, plan.ErrEmpty) {
			return no("This issue's description is empty. Describe what should change and how to tell that it is done."), nil
		}
		if userErr, ok := errors.AsType[*run.UserError](err); ok {
			return no(userErr.Error()), nil
		}
		if err != nil {
			return reply{}, err
		}
		if len(answers) > 0 {
			w.Text = handlers.Text{} // what is worked never was the issue's text alone
		}
	}
	return r.beginBy(ctx, o, w, func(tx *store.Tx, id run.ID) error {
		for _, a := range answers {
			if _, err := r.Store.SettleInput(ctx, tx, a.ID, store.InputDone, "read with the issue", id); err != nil {
				return err
			}
		}
		return nil
	})
}

// withAnswers is an issue's text with what people answered below it.
func withAnswers(body string, answers []store.Input) string {
	if len(answers) == 0 {
		return body
	}
	var b strings.Builder
	b.WriteString(body + "\n\n## Answers\n")
	for _, a := range answers {
		b.WriteString("\n" + strings.TrimSpace(a.Text) + "\n")
	}
	return b.String()
}

// approve starts the run that works a plan which waits for approval, if it still
// is what the person has read.
func (r *Receiver) approve(ctx context.Context, o order) (reply, error) {
	if rep, err := r.refuseBusy(ctx, o); err != nil || rep.state != "" {
		return rep, err
	}
	hash := o.was.Approval
	switch {
	case o.last.ID == "" || hash == "":
		return no("No plan is waiting for approval. Comment `/ralph plan` to get one."), nil
	case !strings.HasPrefix(hash, o.Command.Hash):
		return no(fmt.Sprintf("That is a different plan. The plan waiting for approval is `%s`.",
			hash[:min(len(hash), 12)])), nil
	}
	pub := publish.Publisher{GitHub: o.repo, Effects: r.Comments.Effects, Run: o.last.ID, Issue: o.Issue,
		Label: r.Decoder.Label, Mask: r.Mask}
	err := pub.PlanPosted(ghapp.WithPurpose(ctx, "plan"), hash)
	switch {
	case errors.Is(err, publish.ErrPlanEdited):
		return no("The comment with the plan was edited or deleted, so I cannot take it as approved. Comment " +
			"`/ralph plan` to get the plan posted again."), nil
	case errors.Is(err, publish.ErrNoPlan):
		return no("The plan is not posted yet. Read it once it is, then approve it."), nil
	case err != nil:
		return reply{}, err
	}
	return r.beginBy(ctx, o, RunRequest{Subject: o.Subject, By: o.by.As, Plan: o.was.Plan, Approved: hash,
		ApprovedBy: o.by.As.Login, Progress: o.was.Progress}, nil)
}

// resume goes on where the last run stopped, with the text that was asked for
// then.
func (r *Receiver) resume(ctx context.Context, o order) (reply, error) {
	if rep, err := r.refuseBusy(ctx, o); err != nil || rep.state != "" {
		return rep, err
	}
	switch {
	case o.last.ID == "":
		return no("There is no run to resume. Comment `/ralph start` to start one."), nil
	case o.was.End.Complete():
		return no("All tasks are done. Comment `/ralph do <text>` to add one."), nil
	}
	return r.beginBy(ctx, o, o.again(), nil)
}

// again is a run that goes on where the last one stopped.
func (o *order) again() RunRequest {
	return RunRequest{Subject: o.Subject, By: o.by.As, Plan: o.was.Plan, Approved: o.was.Approved,
		ApprovedBy: o.was.ApprovedBy, Covered: o.was.Covered, Progress: o.was.Progress}
}

// refuseBusy says why no run can be started now; nothing if one can.
func (r *Receiver) refuseBusy(ctx context.Context, o order) (reply, error) {
	if err := r.waitForEnding(ctx, o.Subject); err != nil {
		return reply{}, err
	}
	switch {
	case o.active():
		return no("A run is already in progress. `/ralph status` shows its status, `/ralph stop` stops it."), nil
	case o.Text.Closed:
		return no("This is closed. Reopen it first."), nil
	}
	return reply{}, nil
}

// beginBy begins a run by command. The command is settled in the transaction that
// makes the run.
func (r *Receiver) beginBy(ctx context.Context, o order, w RunRequest,
	also func(tx *store.Tx, id run.ID) error) (reply, error) {
	outcome, err := r.Begin(ctx, o.repo, w, func(tx *store.Tx, id run.ID) error {
		in := o.input
		in.State, in.Run = store.InputDone, id
		if steers(o.Command.Verb) {
			in.State = store.InputPending
		}
		if _, _, err := r.Store.AddInput(ctx, tx, in); err != nil {
			return err
		}
		if also != nil {
			return also(tx, id)
		}
		return nil
	})
	if err != nil {
		return reply{}, err
	}
	switch outcome {
	case OutcomeStarted:
		return reply{state: store.InputDone, reaction: ghapp.ReactionStarts}, nil
	case outcomeTooOften:
		return reply{state: store.InputRefused, reaction: ghapp.ReactionNo}, nil
	case OutcomeRunning:
		return no("A run is already in progress. `/ralph status` shows its status."), nil
	case outcomeLocked:
		return no("This is locked. Unlock it first."), nil
	default:
		return no("The issue is closed or deleted."), nil
	}
}

// steerLater leaves a wish to the run at work, or to one that goes on where the
// last one stopped.
func (r *Receiver) steerLater(ctx context.Context, o order) (reply, error) {
	if err := r.waitForEnding(ctx, o.Subject); err != nil {
		return reply{}, err
	}
	switch {
	case o.last.ID == "":
		return no("No run has started here yet. Comment `/ralph start` to start one."), nil
	case o.active():
		return reply{state: store.InputPending, reaction: ghapp.ReactionSeen, run: o.last.ID,
			write: func(tx *store.Tx) error {
				r.Queue.Wake(tx, o.last.ID)
				return nil
			}}, nil
	case o.Text.Closed:
		return no("This is closed. Reopen it first."), nil
	case o.was.Progress == "" || o.was.Approval != "" || len(o.was.Questions) > 0:
		return no("There is no plan to work on yet. `/ralph status` shows what is missing."), nil
	}
	return r.beginBy(ctx, o, o.again(), nil)
}

// steers says whether a command is for a run to take in.
func steers(v handlers.Verb) bool {
	switch v { //nolint:exhaustive // the others are carried out at once
	case handlers.VerbRetry, handlers.VerbSkip, handlers.VerbDo, handlers.VerbBudget:
		return true
	default:
		return false
	}
}
