package delivery_test

import (
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/delivery/deliverytest"
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
