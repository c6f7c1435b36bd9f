package delivery

import (
	"cmp"
	"context"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
	"github.com/org/ralph-action/internal/strs"
)

// AuditKey is in the line of each decision about trust, whatever level is logged: with the
// value "allowed" or "refused".
const AuditKey = "audit"

// What people ask for besides commands, as the audit names it.
const (
	actionLabel  = "label"
	actionAnswer = "answer"
	actionReview = "review"
)

// maxAuditText bounds each text of a decision, in bytes.
const maxAuditText = 200

// decision is one about trust: whether somebody may have something done.
type decision struct {
	// action is what was asked for: a command, the label, an answer.
	action  string
	allowed bool
	// reason says why, in a few words.
	reason string
}

func allowed(action, reason string) decision { return decision{action, true, reason} }

func refused(action, reason string) decision { return decision{action, false, reason} }

// stopped says that a run was stopped: whoever can remove the label, close or lock the issue may.
func stopped(id run.ID, reason string) decision { return allowed("stop "+string(id), reason) }

// decide marks a delivery as worked, with what f changes beside it, and then logs what was
// decided.
func (r *Receiver) decide(ctx context.Context, guid, outcome string, in handlers.Subject, d decision,
	f func(tx *store.Tx) error) error {
	if err := r.mark(ctx, guid, outcome, f); err != nil {
		return err
	}
	r.audit(ctx, guid, in, d)
	return nil
}

// audit logs what was decided about the event with that GUID. It is called once the
// decision is on disk.
func (r *Receiver) audit(ctx context.Context, guid string, in handlers.Subject, d decision) {
	line := func(text string) string { return strs.Cut(run.PrintableLine(text), maxAuditText) }
	answer := "refused"
	if d.allowed {
		answer = "allowed"
	}
	about := map[string]any{}
	if in.Repo != "" {
		about["repo"] = line(in.Owner + "/" + in.Repo)
	}
	if issue := cmp.Or(in.Issue, in.Pull); issue != 0 {
		about["issue"] = issue
	}
	// zerolog's Log writes whatever level is set, and names none.
	zerolog.Ctx(ctx).Log().Str(zerolog.LevelFieldName, zerolog.LevelInfoValue).
		Str(AuditKey, answer).Str("action", line(d.action)).Str("person", line(in.SenderLogin)).Fields(about).
		Str("reason", line(d.reason)).Str("delivery", guid).Msg("decision")
}

// why says in a few words why somebody was refused, or what they were allowed for.
func why(st Standing) string {
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
