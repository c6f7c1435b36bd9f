package delivery

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/authorization"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/review"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// Operator is who operates the server, in the audit and in what runs are told.
const Operator = "operator"

// decide is what the audit keeps of a decision about the event with that GUID.
func (r *Receiver) decide(ctx context.Context, tx *store.Tx, guid string, in handlers.Subject, action string, allowed bool,
	reason string) error {
	d := store.Decision{
		At: r.Now(), Issue: cmp.Or(in.Issue, in.Pull), Person: in.SenderLogin, Action: action, Allowed: allowed, Reason: reason,
		Delivery: guid,
	}
	if in.Repo != "" {
		d.Repo = in.Owner + "/" + in.Repo
	}
	return r.Store.AddDecision(ctx, tx, d)
}

// markRefused records that somebody was refused what they asked for.
func (r *Receiver) markRefused(ctx context.Context, guid, outcome string, in handlers.Subject, action, reason string) error {
	return r.mark(ctx, guid, outcome, func(tx *store.Tx) error {
		return r.decide(ctx, tx, guid, in, action, false, reason)
	})
}

// why says in a few words why somebody was refused, or what they were allowed for.
func why(st authorization.Standing) string {
	switch {
	case st.Denied != "" && st.Role != "":
		return string(st.Denied) + ": " + st.Role
	case st.Denied != "":
		return string(st.Denied)
	default:
		return st.Role
	}
}

// action is what an order asked for, as the audit names it.
func (o *order) action() string {
	if o.Comment.ID == 0 {
		return "button " + string(o.Command.Verb)
	}
	return "/ralph " + string(o.Command.Verb)
}

// Operate carries out a command of the server's operator on the issue of a run: to stop
// what runs there, or to go on in the name of whoever asked for the run, who must still
// have write access. said is why it was not done, "" where it was.
func (r *Receiver) Operate(ctx context.Context, row store.Run, cmd review.Command) (said string, err error) {
	in := handlers.Subject{
		Owner: row.RepoOwner, Repo: row.RepoName, RepoNode: row.RepoNode, Installation: row.Installation,
		Issue: row.IssueNumber, IssueNode: row.IssueNode, SenderType: "User",
	}
	o := order{
		CommandIntent: handlers.CommandIntent{Subject: in, Command: cmd}, repo: r.repoOf(in), place: row.IssueNumber,
	}
	if _, err := r.findRun(ctx, &o); err != nil {
		return "", err
	}
	o.SenderLogin, o.SenderID = o.was.Subject.RequestedBy, o.was.Subject.RequestedByID
	now := r.Now()
	audit := func(tx *store.Tx, reason string) error {
		d := o.Subject
		d.SenderLogin = Operator
		action := strings.TrimSpace(string(cmd.Verb) + " " + string(o.last.ID) + " " + cmd.Task)
		return r.decide(ctx, tx, "", d, action, said == "", cmp.Or(reason, said))
	}
	if cmd.Verb == review.VerbStop {
		if !o.active() {
			said = "the run has ended"
		}
		return said, r.Store.InTx(ctx, func(tx *store.Tx) error {
			if err := audit(tx, ""); err != nil || said != "" {
				return err
			}
			return r.cancel(ctx, tx, o.last.ID, "the server's operator stopped it")
		})
	}
	if o.by, err = r.Authorizer.Standing(ctx, o.repo, now, o.Subject, handlers.Author{}); err != nil {
		return "", err
	}
	if o.by.Denied != "" {
		said = fmt.Sprintf("@%s, who asked for the run, may not have it go on any more (%s)", o.SenderLogin, why(o.by))
		return said, r.Store.InTx(ctx, func(tx *store.Tx) error { return audit(tx, "") })
	}
	source := fmt.Sprintf("operator:%s:%d", row.ID, now.UnixNano())
	if o.input, err = r.commandInput(source, store.Delivery{ReceivedAt: now}, o); err != nil {
		return "", err
	}
	rep, err := r.carryOut(ctx, o)
	if err != nil {
		return "", err
	}
	if rep.state == store.InputRefused {
		said = cmp.Or(rep.text, "too many runs of this issue were started")
	}
	return said, r.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := audit(tx, "in the name of "+o.SenderLogin); err != nil || said != "" {
			return err
		}
		o.input.State, o.input.Run = rep.state, rep.run
		_, fresh, err := r.Store.AddInput(ctx, tx, o.input)
		if err != nil || !fresh || rep.write == nil {
			return err
		}
		return rep.write(tx)
	})
}

// Operated records a command of the operator's that is about the server as a whole.
func (r *Receiver) Operated(ctx context.Context, action string) error {
	return r.operated(ctx, action, func(*store.Tx) error { return nil })
}

// Pause has no new agent be started until Resume.
func (r *Receiver) Pause(ctx context.Context) error {
	return r.operated(ctx, "pause", func(tx *store.Tx) error { return r.Store.Pause(ctx, tx, r.Now()) })
}

// Resume takes back what Pause did.
func (r *Receiver) Resume(ctx context.Context) error {
	return r.operated(ctx, "resume", func(tx *store.Tx) error { return r.Store.Resume(ctx, tx) })
}

// operated carries out a command of the operator's and records it.
func (r *Receiver) operated(ctx context.Context, action string, do func(tx *store.Tx) error) error {
	return r.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		return r.decide(ctx, tx, "", handlers.Subject{SenderLogin: Operator}, action, true, "on this machine")
	})
}

// stopped records that a run was stopped by what anybody may do who can do it at all.
func (r *Receiver) stopped(ctx context.Context, tx *store.Tx, guid string, in handlers.Subject, id run.ID, why string) error {
	return r.decide(ctx, tx, guid, in, "stop "+string(id), true, why)
}
