package delivery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/delivery/deliverytest"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/store"
)

// reviewable is an issue with a run that is done, and its pull request.
func reviewable(st *deliverytest.Stage) (issue, pull int) {
	issue = st.Begin()
	st.Save(issue, complete)
	return issue, st.Pull(issue)
}

func line(body string) ghsim.ReviewLine {
	return ghsim.ReviewLine{Path: "README.md", Line: 1, Body: body}
}

// reviewed has somebody review a pull request.
func reviewed(st *deliverytest.Stage, pull int, by, body string, lines ...ghsim.ReviewLine) ghsim.Review {
	rv, err := st.Review(ada, repo, pull, by, "CHANGES_REQUESTED", body, lines...)
	st.Must(err)
	return rv
}

// TestReviewsAreKeptForTheRun as they were said, with the role of who said it; those of bots that the
// server does not listen to, of the App itself, and on what is not its own are not.
func TestReviewsAreKeptForTheRun(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	who := crowd(st)
	issue, pull := reviewable(st)
	_, err := st.Push(ada, repo, "mine", ada, ghsim.PushOptions{Files: map[string]string{"mine.txt": "x\n"}})
	st.Must(err)
	const kept, refused, nothing = "kept for the run", "refused", "nothing to do"
	for _, tt := range []struct {
		by, author    string
		set           map[string]any
		outcome, role string
	}{
		{by: ada, outcome: kept, role: "admin"},
		{by: "contractor", outcome: kept, role: "contractor"},
		{by: eve, outcome: kept, role: "triage"}, // somebody who may can ask for it
		{by: mallory, outcome: kept, role: "read"},
		{by: "stranger", outcome: kept, role: "none"},
		{by: ada, author: mallory, outcome: kept, role: "none"},
		{by: "renovate", outcome: kept, role: "bot"},
		{by: "evil", outcome: refused}, {by: "false renovate", outcome: refused}, {by: "a workflow", outcome: refused},
		{by: "the App", outcome: refused}, {by: "an organisation", outcome: refused},
		{by: ada, set: map[string]any{"review.performed_via_github_app": map[string]any{"id": st.App.ID}}, outcome: nothing},
		{by: ada, set: map[string]any{"pull_request.number": 99, "pull_request.head.ref": "mine"}, outcome: "not about a run of ours"},
		{by: ada, set: map[string]any{"pull_request.number": 99}, outcome: "not about a run of ours"}, // from our branch
	} {
		name := fmt.Sprintf("%s in the name of %s, %v", tt.by, tt.author, tt.set)
		author, ok := who[tt.author]
		if !ok {
			author = who[tt.by]
		}
		reviewed(st, pull, ada, "Not yet.")
		event := st.Forge(st.Last(), name, map[string]any{
			"sender": who[tt.by], "review.user": author, "review.author_association": "OWNER",
		})
		event = st.Forge(event, name, tt.set)
		before := st.Inputs(issue)
		if got := st.Deliver(event); got != tt.outcome {
			t.Errorf("%s: %s, want %s", name, got, tt.outcome)
		}
		event.GUID += "-again"
		st.Deliver(event)
		news := st.Inputs(issue)[len(before):]
		if len(news) > 1 || (len(news) == 1) != (tt.outcome == kept) {
			t.Errorf("%s: kept %+v", name, news)
		}
		for _, in := range news {
			if in.Role != tt.role || in.Text != "Not yet." || in.Kind != store.InputReview ||
				in.Author != who[tt.by].Login {
				t.Errorf("%s: kept %+v", name, in)
			}
		}
	}
	if said := append(st.Said(issue), st.Said(pull)...); len(said) > 0 {
		t.Errorf("said %q", said)
	}
}

// TestCommandsInReviewsAreAnsweredAtOnce by a reaction, as those in ordinary comments are; words are
// not.
func TestCommandsInReviewsAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	_, pull := reviewable(st)
	const seen, no = "eyes", "-1"
	for _, tt := range []struct{ by, body, line, wantBody, wantLine string }{
		{mallory, "/ralph do mine coins", "/ralph do", no, no},
		{mallory, "Mine coins.", "Mine more coins.", "", ""},
		{ada, "/ralph stop", "/ralph dance", no, no},
		{ada, "/ralph do write more", "/ralph do write even more\n\nPlease.", seen, seen},
		{ada, "/ralph do", "/ralph do", no, seen}, // the conversation says what
		{ada, "Say hello here.", "> /ralph do", "", ""},
	} {
		rv := reviewed(st, pull, tt.by, tt.body, line(tt.line))
		for _, d := range st.Events() {
			st.Deliver(d)
			d.GUID += "-again"
			st.Deliver(d)
		}
		if got := st.Reactions(pull, rv.ID); got != tt.wantBody {
			t.Errorf("%q: reactions %q", tt.body, got)
		}
		if got := st.Reactions(pull, rv.Lines[0].ID); got != tt.wantLine {
			t.Errorf("%q in a conversation: reactions %q", tt.line, got)
		}
	}
	said := strings.Join(st.Said(pull), "\n")
	for _, text := range []string{"A review accepts only `/ralph do`", "Unknown command", "`mallory`", "Write the task on the same line"} {
		if strings.Count(said, text) != 1 {
			t.Errorf("%q was not said once:\n%s", text, said)
		}
	}
}

// TestC2EditedReview: what is changed before anybody acted on it counts for nothing, and its author is
// told, unless nobody would have worked it, or it was taken back.
func TestC2EditedReview(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	renovate := crowd(st)["renovate"]
	for _, tt := range []struct {
		name, by, event, action string
		taken                   bool
		outcome                 string
		said                    string
	}{
		{"an edited review", ada, "pull_request_review", "edited", false, "withdrawn", "`ada`: your comment changed"},
		{"a dismissed one", ada, "pull_request_review", "dismissed", false, "withdrawn", ""},
		{"an edited comment", ada, "pull_request_review_comment", "edited", false, "withdrawn", "`ada`: your comment changed"},
		{"a deleted one", ada, "pull_request_review_comment", "deleted", false, "withdrawn", ""},
		{"a stranger's review", mallory, "pull_request_review", "edited", false, "withdrawn", ""},
		{"a stranger's comment", mallory, "pull_request_review_comment", "edited", false, "withdrawn", ""},
		{"a bot's comment", "renovate", "pull_request_review_comment", "edited", false, "withdrawn", ""},
		{"one that was acted on", ada, "pull_request_review_comment", "edited", true, "nothing to do", ""},
	} {
		issue, pull := reviewable(st)
		by := tt.by
		if by == "renovate" {
			by = renovate.Login
		}
		reviewed(st, pull, by, "Rewrite it.", line("Shorter."))
		events := st.Events()
		for _, d := range events {
			st.Deliver(d)
		}
		if tt.taken {
			st.Settle(issue)
		}
		i := slices.IndexFunc(events, func(d store.Delivery) bool { return d.Event == tt.event })
		if got := st.Deliver(st.Forge(events[i], tt.name, map[string]any{"action": tt.action})); got != tt.outcome {
			t.Errorf("%s: %s", tt.name, got)
		}
		left := 1 // the other half of the review stands
		if tt.taken {
			left = 0
		}
		if in := st.Inputs(issue); len(in) != left || left > 0 && string(in[0].Kind) == map[string]string{
			"pull_request_review": "review", "pull_request_review_comment": "review_comment"}[tt.event] {
			t.Errorf("%s: left %+v", tt.name, in)
		}
		st.SaysOnce(pull, tt.said, tt.name)
	}
}
