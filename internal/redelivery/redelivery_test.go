package redelivery_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/delivery/deliverytest"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/redelivery"
	"github.com/org/ralph-action/internal/store"
)

// server is the stage's App after a start.
func server(t *testing.T, st *deliverytest.Stage) *redelivery.Sweeper {
	t.Helper()
	return &redelivery.Sweeper{
		Store: st.Store, GitHub: st.GitHub, Label: deliverytest.Label,
		Deliver:  func(ctx context.Context, d store.Delivery) (string, error) { return st.Receiver.Deliver(ctx, d) },
		Comments: st.Receiver.Comments, Serves: func(string, string) bool { return true }, Now: st.Now,
	}
}

// known has the server have taken a webhook: one that has none is new, and has missed nothing.
func known(st *deliverytest.Stage) {
	st.PutLabel(deliverytest.Ada, st.Write("Nothing to work on", "").Number)
	st.Work()
}

// missed is an issue whose label GitHub tells nobody of, long enough ago to be missed.
func missed(st *deliverytest.Stage) ghsim.Issue {
	st.Must(st.SetHook(st.App.ID, "", ""))
	issue := st.Write("Say hello", deliverytest.Text)
	st.PutLabel(deliverytest.Ada, issue.Number)
	st.Pass(11 * time.Minute)
	return issue
}

// asked counts how often people were asked to put the label on again.
func asked(st *deliverytest.Stage, issue ghsim.Issue) int {
	n := 0
	for _, c := range st.Said(issue.Number) {
		n += strings.Count(c, "missed this label")
	}
	return n
}

// TestAskedForAgain: what GitHub was just asked to send again is on its way. Nobody is told that it
// was missed, whatever happened on the issue meanwhile, and it is worked once.
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
		asked   int
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
		{name: "refused until it is given up", refused: 3, runs: 1},
		{name: "given up, and a comment", refused: 3, asked: 1, meanwhile: func(st *deliverytest.Stage, issue int) {
			_, err := st.Comment(deliverytest.Ada, deliverytest.Name, issue, deliverytest.Ada, "And?")
			st.Must(err)
		}},
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
			s := server(t, st)
			for range tt.refused {
				st.Pass(grace)
				st.Must(s.CatchUp(t.Context()))
				st.Must(st.WaitIdle(t.Context()))
				if n := asked(st, issue); n != 0 {
					t.Fatal("a person was told that the label was missed")
				}
			}
			st.Down.Store(false)
			for range 3 {
				st.Pass(grace)
				st.Must(s.CatchUp(t.Context()))
				st.Work()
			}
			if n, _ := st.Runs(issue.Number); n != tt.runs {
				t.Errorf("%d runs, want %d", n, tt.runs)
			}
			if n := asked(st, issue); n != tt.asked {
				t.Errorf("asked %d times to put the label on again, want %d", n, tt.asked)
			}
		})
	}
}

// TestMissedLabels: GitHub sends no webhook of some labels. They are worked as if
// it had, unless something happened on the issue since.
func TestMissedLabels(t *testing.T) {
	t.Parallel()
	const ada, eve, name = deliverytest.Ada, deliverytest.Eve, deliverytest.Name
	for _, tt := range []struct {
		name string
		// heard: the webhook arrived.
		heard bool
		by    string
		since func(st *deliverytest.Stage, issue int)
		// told is in a comment, "" for none.
		told string
		run  bool
	}{
		{name: "missed", run: true},
		{name: "by somebody who may not", by: eve, told: "`eve`"},
		{name: "heard", heard: true, run: true},
		{name: "heard of somebody who may not", heard: true, by: eve, told: "`eve`"},
		{name: "edited since", told: "missed this label", since: func(st *deliverytest.Stage, issue int) {
			st.Must(st.EditIssue(ada, name, issue, ada, "Say hello", deliverytest.Text+"- [ ] and something else\n"))
		}},
		{name: "taken off since", since: func(st *deliverytest.Stage, issue int) { st.TakeLabel(ada, issue) }},
		{name: "closed since", since: func(st *deliverytest.Stage, issue int) { st.Must(st.CloseIssue(ada, name, issue, ada)) }},
		{name: "done before", since: func(st *deliverytest.Stage, issue int) {
			st.Must(st.AddLabel(ada, name, issue, ada, "ralph:done"))
		}},
		{name: "begun elsewhere", since: func(st *deliverytest.Stage, issue int) {
			_, err := st.Push(ada, name, fmt.Sprintf("ralph/%d", issue), ada,
				ghsim.PushOptions{Message: "manually", Files: map[string]string{"x": "x"}})
			st.Must(err)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			st := deliverytest.New(t, nil)
			known(st)
			issue := st.Write("Say hello", deliverytest.Text)
			st.Work()
			if !tt.heard {
				st.Must(st.SetHook(st.App.ID, "", ""))
			}
			by := ada
			if tt.by != "" {
				by = tt.by
			}
			st.PutLabel(by, issue.Number)
			st.Work()
			if tt.since != nil {
				st.Tick()
				tt.since(st, issue.Number)
			}
			before, first := st.Runs(issue.Number)
			// Its webhook may still be on its way.
			st.Must(server(t, st).CatchUp(t.Context()))
			if n, _ := st.Runs(issue.Number); n != before || !tt.heard && len(st.Said(issue.Number)) != 0 {
				t.Error("did not wait for the webhook")
			}
			st.Pass(11 * time.Minute)
			for range 3 { // three starts
				s := server(t, st)
				st.Must(s.CatchUp(t.Context()))
				st.Must(s.CatchUp(t.Context()))
			}
			n, last := st.Runs(issue.Number)
			want := 0
			if tt.run {
				want = 1
			}
			if n != want || tt.heard && last.ID != first.ID {
				t.Errorf("%d runs, want %d", n, want)
			}
			said := st.Said(issue.Number)
			switch {
			case tt.told == "" && len(said) > 0:
				t.Errorf("said %q", said)
			case tt.told != "" && (len(said) != 1 || !strings.Contains(said[0], tt.told)):
				t.Errorf("said %q, want %q once", said, tt.told)
			}
		})
	}
}

// TestLabelsAreLookedForOnce after a start: from time to time only what GitHub knows that it could
// not deliver is asked for.
func TestLabelsAreLookedForOnce(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	s := server(t, st)
	st.Must(s.CatchUp(t.Context())) // a server that is new has missed nothing
	known(st)
	issue := missed(st)
	st.Must(s.CatchUp(t.Context()))
	if n, _ := st.Runs(issue.Number); n != 0 {
		t.Error("labels were looked for at work")
	}
	st.Must(server(t, st).CatchUp(t.Context()))
	if n, _ := st.Runs(issue.Number); n != 1 {
		t.Errorf("%d runs after a start", n)
	}
}

// TestALookThatFailedIsRepeated: a start while GitHub is away misses nothing.
func TestALookThatFailedIsRepeated(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	known(st)
	issue := missed(st)
	for _, match := range []string{"^/app/hook/deliveries$", "/issues$"} {
		st.Must(st.Inject(ghsim.Fault{Method: "GET", Match: match, Status: 404, Body: "{}"}))
	}
	s := server(t, st)
	for range 2 {
		if err := s.CatchUp(t.Context()); err == nil {
			t.Fatal("a failure is not told of")
		}
	}
	st.Must(s.CatchUp(t.Context()))
	if n, _ := st.Runs(issue.Number); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// TestManyMissedLabels: not all are begun at once.
func TestManyMissedLabels(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	known(st)
	st.Must(st.SetHook(st.App.ID, "", ""))
	var issues []ghsim.Issue
	for range 7 {
		issues = append(issues, st.Write("Say hello", deliverytest.Text))
		st.PutLabel(deliverytest.Ada, issues[len(issues)-1].Number)
	}
	st.Pass(11 * time.Minute)
	st.Must(server(t, st).CatchUp(t.Context()))
	begun, told := 0, 0
	for _, issue := range issues {
		n, _ := st.Runs(issue.Number)
		begun += n
		told += asked(st, issue)
	}
	if begun != 5 || told != 2 {
		t.Errorf("%d runs begun and %d issues asked about, want 5 and 2", begun, told)
	}
}
