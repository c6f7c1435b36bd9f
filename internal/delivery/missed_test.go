package delivery_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/delivery/deliverytest"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// known has the server have taken a webhook: one that has none is new, and has missed nothing.
func known(st *deliverytest.Stage) {
	st.PutLabel(deliverytest.Ada, st.Write("Nothing to work on", "").Number)
	st.Work()
}

// TestAskedForAgain: what GitHub could not deliver is asked for, whatever happened on the issue
// meanwhile, and worked once; what was refused again and again is given up.
func TestAskedForAgain(t *testing.T) {
	t.Parallel()
	const grace = 11 * time.Minute
	for _, tt := range []struct {
		name string
		// meanwhile happens after a label whose webhook was refused.
		meanwhile func(st *deliverytest.Stage, issue int)
		// refused is how many looks find the App out of reach, each with the try it asks for.
		refused int
		runs    int
	}{
		{name: "nothing else", runs: 1},
		{name: "a comment", runs: 1, meanwhile: func(st *deliverytest.Stage, issue int) {
			_, err := st.Comment(deliverytest.Ada, deliverytest.Name, issue, deliverytest.Ada, "/ralph status")
			st.Must(err)
		}},
		{name: "an edit, which the label does not approve", runs: 1, meanwhile: func(st *deliverytest.Stage, issue int) {
			st.Must(st.EditIssue(deliverytest.Ada, deliverytest.Name, issue, deliverytest.Ada, "", "Something else"))
		}},
		{name: "refused again", refused: 2, runs: 1},
		{name: "refused until it is given up", refused: 3, runs: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			st := deliverytest.New(t, nil)
			known(st)
			st.Down.Store(true)
			issue := st.Write("Say hello", deliverytest.Text)
			st.PutLabel(deliverytest.Ada, issue.Number)
			st.Tick()
			if tt.meanwhile != nil {
				tt.meanwhile(st, issue.Number)
			}
			st.Must(st.WaitIdle(t.Context()))
			for range tt.refused {
				st.Pass(grace)
				st.Must(st.Receiver.Redeliver(t.Context()))
				st.Must(st.WaitIdle(t.Context()))
			}
			st.Down.Store(false)
			for range 3 {
				st.Pass(grace)
				st.Must(st.Receiver.Redeliver(t.Context()))
				st.Work()
			}
			if n, _ := st.Runs(issue.Number); n != tt.runs {
				t.Errorf("%d runs, want %d", n, tt.runs)
			}
			if tt.runs == 1 && !strings.Contains(st.State(issue.Number).Plan.Text, "Write three") {
				t.Errorf("it works on %q", st.State(issue.Number).Plan.Text)
			}
		})
	}
}

// TestWhatAnOlderCopyDoesNotKnow: what comes late and shows on GitHub that it was worked, by a run that
// this store does not know, is not worked again.
func TestWhatAnOlderCopyDoesNotKnow(t *testing.T) {
	t.Parallel()
	const late = 20 * time.Minute
	st := deliverytest.New(t, nil)
	gh := st.GitHub.Repo(st.Installation, ada, repo)
	// commit has the App commit on the branch of an issue, for a run.
	commit := func(issue int, id run.ID) {
		t.Helper()
		heads, err := st.Branches(ada, repo)
		st.Must(err)
		st.Must(gh.CreateBranch(t.Context(), run.Branch(issue), heads["main"]))
		_, err = gh.CreateCommit(t.Context(), ghapp.CommitInput{Branch: run.Branch(issue), ExpectedHead: heads["main"],
			Headline: "feat: write one", Body: "Ralph-Run: " + string(id) + "\nRalph-Iteration: 1",
			Additions: []ghapp.FileAddition{{Path: "one", Content: []byte("1")}}})
		st.Must(err)
	}
	const took = "taken in before"
	for name, tt := range map[string]struct {
		// since is what happened on GitHub that the store does not know.
		since func(issue int)
		early bool
		want  string
	}{
		"nothing":                    {since: func(int) {}, want: "started a run"},
		"a run that wrote nothing":   {since: func(n int) { st.Must(gh.React(t.Context(), n, ghapp.ReactionSeen)) }, want: took},
		"a run that committed":       {since: func(n int) { commit(n, "r-lost") }, want: took},
		"the same, and not late":     {since: func(n int) { commit(n, "r-lost") }, early: true, want: "started a run"},
		"somebody else's own branch": {since: func(n int) { pushAs(st, n) }, want: "started a run"},
	} {
		issue := st.Write("Say hello", deliverytest.Text).Number
		st.PutLabel(ada, issue)
		label := st.Last()
		tt.since(issue)
		st.Events()
		if !tt.early {
			label.ReceivedAt = st.Now().Add(late)
		}
		if got := st.Deliver(label); got != tt.want {
			t.Errorf("a label, and %s: %s, want %s", name, got, tt.want)
		}
	}

	// A label that is put back on the issue of a run that is known.
	issue := st.Begin()
	_, known := st.Runs(issue)
	st.Save(issue, cancelled)
	commit(issue, known.ID)
	st.TakeLabel(ada, issue)
	st.PutLabel(ada, issue)
	again := st.Last()
	again.ReceivedAt = st.Now().Add(late)
	if got := st.Deliver(again); got != "started a run" {
		t.Errorf("a label after a known run: %s", got)
	}

	for name, tt := range map[string]struct {
		react string
		want  string
	}{"not seen": {"", "carried out"}, "seen": {ghapp.ReactionYes, took}} {
		comment := st.Say(ada, issue, "/ralph budget +5")
		event := st.Last()
		event.ReceivedAt = st.Now().Add(late)
		if tt.react != "" {
			st.Must(gh.ReactToComment(t.Context(), comment.ID, tt.react))
		}
		if got := st.Deliver(event); got != tt.want {
			t.Errorf("a command, %s: %s, want %s", name, got, tt.want)
		}
	}

	// A late command that is repeated after its reaction is not taken for an old one.
	half := st.Say(ada, issue, "/ralph status")
	event := st.Last()
	event.ReceivedAt = st.Now().Add(late)
	st.Must(st.Inject(ghsim.Fault{Method: "POST", Match: fmt.Sprintf("/issues/%d/comments$", issue), Times: 1, Status: 502, Body: "x"}))
	if _, err := st.Receiver.Deliver(t.Context(), event); err == nil || st.Reactions(issue, half.ID) != "+1" {
		t.Fatalf("%v, reactions %q", err, st.Reactions(issue, half.ID))
	}
	st.Must(st.Receiver.Work(t.Context(), event.GUID))
	if d, err := st.Store.Delivery(t.Context(), event.GUID); err != nil || d.Outcome != "carried out" {
		t.Errorf("repeated: %s, %v", d.Outcome, err)
	}

	// What was recorded and is sent again when the store has forgotten it.
	unworked := st.Write("Say hello", deliverytest.Text).Number
	st.PutLabel(ada, unworked)
	replay := st.Last()
	replay.ReceivedAt = st.Now().Add(store.KeepDeliveries + time.Minute)
	if got := st.Deliver(replay); got != "not so any more" {
		t.Errorf("a replay: %s", got)
	}

	work := st.Begin()
	pull := st.Pull(work)
	for _, listed := range []bool{false, true} {
		review, err := st.Review(ada, repo, pull, ada, "CHANGES_REQUESTED", "Make it blue.",
			ghsim.ReviewLine{Path: fmt.Sprintf("hello-%d.txt", work), Line: 1, Body: "Shorter."})
		st.Must(err)
		events := st.Events()
		if len(events) != 2 {
			t.Fatalf("%d webhooks", len(events))
		}
		want := "kept for the run"
		if listed {
			want = took
			body, err := publish.Body("", publish.View{RepoURL: st.URL(), PullNumber: pull, Said: []publish.Said{
				{By: ada, Review: review.ID, TaskID: "T4"}, {By: ada, Comment: review.Lines[0].ID, Where: "a", TaskID: "T5"},
			}})
			st.Must(err)
			st.Must(gh.UpdatePR(t.Context(), pull, body))
			st.Events()
		}
		for _, event := range events {
			event.ReceivedAt = st.Now().Add(late)
			if got := st.Deliver(event); got != want {
				t.Errorf("%s, listed %t: %s, want %s", event.Event, listed, got, want)
			}
		}
	}
	if n := len(st.Inputs(work, store.InputReview, store.InputReviewComment)); n != 2 {
		t.Errorf("%d inputs, want those of the first review", n)
	}
}

// pushAs pushes to the branch of an issue with the words of a run.
func pushAs(st *deliverytest.Stage, issue int) {
	_, err := st.Push(ada, repo, run.Branch(issue), ada, ghsim.PushOptions{
		Message: "feat: write one\n\nRalph-Run: r-lost\nRalph-Iteration: 1", Files: map[string]string{"one": "1"},
	})
	st.Must(err)
}
