package delivery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/delivery/deliverytest"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/store"
)

const (
	ada     = deliverytest.Ada
	eve     = deliverytest.Eve
	mallory = deliverytest.Mallory
	repo    = deliverytest.Name
)

// deeds are what people do to an issue, or to its pull request.
var deeds = map[string]func(st *deliverytest.Stage, n int) error{
	"label": func(st *deliverytest.Stage, n int) error { return st.AddLabel(ada, repo, n, ada, deliverytest.Label) },
	"unlabel": func(st *deliverytest.Stage, n int) error {
		return st.RemoveLabel(ada, repo, n, eve, deliverytest.Label)
	},
	"close":    func(st *deliverytest.Stage, n int) error { return st.CloseIssue(ada, repo, n, ada) },
	"reopen":   func(st *deliverytest.Stage, n int) error { return st.ReopenIssue(ada, repo, n, ada) },
	"lock":     func(st *deliverytest.Stage, n int) error { return st.LockIssue(ada, repo, n, ada, true) },
	"unlock":   func(st *deliverytest.Stage, n int) error { return st.LockIssue(ada, repo, n, ada, false) },
	"edit":     func(st *deliverytest.Stage, n int) error { return st.EditIssue(ada, repo, n, ada, "Other words", "") },
	"delete":   func(st *deliverytest.Stage, n int) error { return st.DeleteIssue(ada, repo, n, ada) },
	"transfer": func(st *deliverytest.Stage, n int) error { return st.TransferIssue(ada, repo, n, ada, "elsewhere") },
}

// do has people do one thing after another, a second apart, and gives the webhooks of that.
func do(st *deliverytest.Stage, n int, what ...string) []store.Delivery {
	for _, w := range what {
		st.Tick()
		st.Must(deeds[w](st, n))
	}
	return st.Events()
}

// orders are all orders of n things.
func orders(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for _, o := range orders(n - 1) {
		for at := range n {
			out = append(out, slices.Insert(slices.Clone(o), at, n-1))
		}
	}
	return out
}

// live says whether an issue has a run that nobody has stopped, and why it was stopped.
func live(t *testing.T, st *deliverytest.Stage, issue int) (bool, string) {
	t.Helper()
	n, last := st.Runs(issue)
	if n == 0 {
		return false, "there was none"
	}
	return !last.Phase.Terminal() && last.CancelRequestedAt.IsZero(), last.CancelBy
}

// TestStopsInAnyOrder: GitHub keeps no order of webhooks, and sends them again. Whether there is a
// run at the end is what the issue says, whichever webhook is worked last.
func TestStopsInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		deeds [3]string
		runs  bool
	}{
		{[3]string{"label", "unlabel", "label"}, true},
		{[3]string{"label", "close", "reopen"}, true},
		{[3]string{"close", "reopen", "label"}, true},
		{[3]string{"label", "lock", "unlock"}, true},
		{[3]string{"lock", "label", "unlock"}, true},
		{[3]string{"lock", "unlock", "label"}, true},
		{[3]string{"label", "unlabel", "close"}, false},
		{[3]string{"label", "unlabel", "lock"}, false},
		{[3]string{"label", "lock", "close"}, false},
		{[3]string{"label", "edit", "lock"}, false},
		{[3]string{"lock", "label", "edit"}, false},
		{[3]string{"label", "edit", "close"}, false},
		{[3]string{"label", "edit", "delete"}, false},
		{[3]string{"label", "edit", "transfer"}, false},
	} {
		t.Run(strings.Join(tt.deeds[:], ", "), func(t *testing.T) {
			t.Parallel()
			st := deliverytest.New(t, nil)
			_, err := st.CreateRepo(ada, "elsewhere", ghsim.RepoOptions{})
			st.Must(err)
			for _, order := range orders(3) {
				issue := st.Write("Say hello", deliverytest.Text).Number
				st.Events()
				events := do(st, issue, tt.deeds[:]...)
				if len(events) != 3 {
					t.Fatalf("%d webhooks", len(events))
				}
				for _, i := range order {
					st.Deliver(events[i])
				}
				if got, why := live(t, st, issue); got != tt.runs {
					t.Errorf("worked in the order %v: a run %t, want %t (%s)", order, got, tt.runs, why)
				}
				for _, d := range events { // sent again, under another name, which nobody signs
					d.GUID += "-again"
					st.Deliver(d)
				}
				if got, why := live(t, st, issue); got != tt.runs {
					t.Errorf("worked in the order %v and again: a run %t, want %t (%s)", order, got, tt.runs, why)
				}
			}
		})
	}
}

// TestStops: each way to stop a run that is at work, as it comes.
func TestStops(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	_, err := st.CreateRepo(ada, "elsewhere", ghsim.RepoOptions{})
	st.Must(err)
	for deed, want := range map[string]string{
		"unlabel": "the label was removed by eve", "close": "the issue was closed by ada",
		"lock": "the issue was locked by ada", "delete": "the issue was deleted by ada",
		"transfer": "the issue was transferred by ada",
	} {
		issue := st.Write("Say hello", deliverytest.Text).Number
		st.Events()
		for _, d := range do(st, issue, "label") {
			st.Deliver(d)
		}
		if ok, why := live(t, st, issue); !ok {
			t.Fatalf("%s: no run: %s", deed, why)
		}
		event := do(st, issue, deed)[0]
		before := len(st.Calls())
		st.Deliver(event)
		if n := len(st.Calls()) - before; n != 1 && deed != "transfer" { // which leads elsewhere
			t.Errorf("%s: %d calls, want one read", deed, n)
		}
		if ok, why := live(t, st, issue); ok || why != want {
			t.Errorf("%s: at work %t, stopped since %q, want %q", deed, ok, why, want)
		}
	}
	// Whoever wrote the issue may close it.
	written, err := st.CreateIssue(ada, repo, mallory, "Say hello", deliverytest.Text)
	st.Must(err)
	st.PutLabel(ada, written.Number)
	st.Work()
	st.Must(st.CloseIssue(ada, repo, written.Number, mallory))
	st.Work()
	if ok, why := live(t, st, written.Number); ok || why != "the issue was closed by mallory" {
		t.Errorf("closed by its author: at work %t, %q", ok, why)
	}
	issue := st.Write("Nothing to stop", deliverytest.Text).Number
	event := do(st, issue, "close")
	before := len(st.Calls())
	st.Deliver(event[len(event)-1])
	if n := len(st.Calls()) - before; n != 0 {
		t.Errorf("%d calls where there is no run", n)
	}
}

// TestStopOfAPullRequest: a run stops when its pull request is closed now, whatever order GitHub
// tells of it in.
func TestStopOfAPullRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		deeds [3]string
		runs  bool
	}{
		{[3]string{"close", "reopen", "edit"}, true},
		{[3]string{"close", "reopen", "close"}, false},
	} {
		t.Run(strings.Join(tt.deeds[:], ", "), func(t *testing.T) {
			t.Parallel()
			st := deliverytest.New(t, nil)
			for _, order := range orders(3) {
				issue := st.Write("Say hello", deliverytest.Text).Number
				st.PutLabel(ada, issue)
				st.Work()
				pull := st.Pull(issue)
				events := do(st, pull, tt.deeds[:]...)
				for _, i := range order {
					st.Deliver(events[i])
				}
				if got, why := live(t, st, issue); got != tt.runs || !got && why != "the pull request was closed by ada" {
					t.Errorf("worked in the order %v: a run %t, want %t (%s)", order, got, tt.runs, why)
				}
			}
		})
	}
}

// TestI7PullRequestClosed stops the run with one read, and so does one that is merged.
func TestI7PullRequestClosed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		how, why string
		set      map[string]any
	}{
		{"closed", "the pull request was closed by ada", nil},
		{"merged", "the pull request was merged by ada", nil},
		{"merged", "the pull request was merged by ada", map[string]any{"pull_request.base.ref": "release"}},
	} {
		st := deliverytest.New(t, nil)
		issue := st.Begin()
		pull := st.Pull(issue)
		if tt.how == "merged" {
			st.Must(st.Merge(ada, repo, pull, ada))
		} else {
			st.Must(st.CloseIssue(ada, repo, pull, ada))
		}
		before := len(st.Calls())
		for _, d := range st.Events() {
			st.Deliver(st.Forge(d, d.GUID, tt.set))
		}
		if n := len(st.Calls()) - before; n != 1 {
			t.Errorf("%s: %d calls, want one read", tt.how, n)
		}
		if runs, why := live(t, st, issue); runs || why != tt.why {
			t.Errorf("%s: at work %t: %s", tt.how, runs, why)
		}
	}
}

// TestA7RepositoriesThatMove: a run goes with its repository, and ends where the App loses it.
func TestA7RepositoriesThatMove(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	removed := func(node string) map[string]any {
		return map[string]any{"action": "removed", "repositories_removed": []any{map[string]any{"node_id": node}}}
	}
	for _, tt := range []struct {
		name, event string
		set         map[string]any
		// why it was stopped, "" where it was not; at is where it runs, "" for where it was.
		why, at string
	}{
		{"renamed", "repository", map[string]any{"action": "renamed", "repository.name": "gadgets"}, "", "ada/gadgets"},
		{
			"transferred", "repository",
			map[string]any{"action": "transferred", "repository.owner.login": "acme", "installation.id": 7}, "", "acme/widgets",
		},
		{"archived", "repository", map[string]any{"action": "archived"}, "the repository was archived by ada", ""},
		{"deleted", "repository", map[string]any{"action": "deleted"}, "the repository was deleted by ada", ""},
		{"another deleted", "repository", map[string]any{"action": "deleted", "repository.node_id": "R_other"}, "", ""},
		{"suspended", "installation", map[string]any{"action": "suspend"}, "the App was suspended by ada", ""},
		{"uninstalled", "installation", map[string]any{"action": "deleted"}, "the App was uninstalled by ada", ""},
		{"another installation", "installation", map[string]any{"action": "deleted", "installation.id": 7}, "", ""},
		{"taken off", "installation_repositories", removed(st.Repo.NodeID), "the App was taken off the repository by ada", ""},
		{"taken off another", "installation_repositories", removed("R_other"), "", ""},
		{"taken off none", "installation_repositories", map[string]any{"action": "removed", "repositories_removed": nil}, "", ""},
	} {
		issue := st.Begin()
		st.Say(ada, issue, "A word.")
		event := st.Forge(st.Last(), tt.name, tt.set)
		event.Event = tt.event
		st.Deliver(event)
		runs, why := live(t, st, issue)
		if runs != (tt.why == "") || why != tt.why {
			t.Errorf("%s: at work %t: %s", tt.name, runs, why)
		}
		at := tt.at
		if at == "" {
			at = ada + "/" + repo
		}
		if _, last := st.Runs(issue); last.RepoOwner+"/"+last.RepoName != at || (last.Installation == 7) != (tt.name == "transferred") {
			t.Errorf("%s: the run is of %s/%s and installation %d", tt.name, last.RepoOwner, last.RepoName, last.Installation)
		}
		if runs {
			st.Save(issue, cancelled)
		}
	}
}

// TestAStopThatCannotBeReadIsRepeated: what GitHub does not say is no stop, and the stop is not lost.
func TestAStopThatCannotBeReadIsRepeated(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	for _, status := range []int{500, 502, 403} {
		issue := st.Write("Say hello", deliverytest.Text).Number
		st.PutLabel(ada, issue)
		st.Work()
		event := do(st, issue, "unlabel")[0]
		fault := ghsim.Fault{Method: "GET", Match: fmt.Sprintf("/issues/%d$", issue), Times: 1, Status: status,
			Body: `{"message":"not now"}`}
		st.Must(st.Inject(fault))
		if _, err := st.Receiver.Deliver(t.Context(), event); err == nil {
			t.Fatalf("%d: the failure is not told of", status)
		}
		if ok, why := live(t, st, issue); !ok {
			t.Errorf("%d: stopped without an answer: %s", status, why)
		}
		st.Must(st.Receiver.Work(t.Context(), event.GUID))
		if ok, why := live(t, st, issue); ok {
			t.Errorf("%d: the stop was lost: %s", status, why)
		}
	}
}

// TestAnAnswerFromBeforeTheStop: GitHub may answer with what was before the webhook was sent.
func TestAnAnswerFromBeforeTheStop(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	issue := st.Write("Say hello", deliverytest.Text).Number
	st.PutLabel(ada, issue)
	events := st.Events()
	st.Deliver(events[len(events)-1])
	stop := st.Forge(events[len(events)-1], "stop",
		map[string]any{"action": "unlabeled", "issue.updated_at": st.Now().Add(time.Minute)})
	st.Deliver(stop)
	if ok, _ := live(t, st, issue); ok {
		t.Error("GitHub's older answer counted against the stop")
	}
}
