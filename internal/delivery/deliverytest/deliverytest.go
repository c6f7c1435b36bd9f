// Package deliverytest is a repository on a simulated GitHub with the App's store beside it, for
// tests of what the App decides: no server, no agent, no git.
//
// What people do there causes webhooks. A test takes them one by one, in the order it likes, and
// has them worked: [Stage.Events] and [Stage.Work].
package deliverytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// What is on a stage: Ada owns the repository and may do everything, Eve has the triage role, and
// Mallory none.
const (
	Ada     = "ada"
	Eve     = "eve"
	Mallory = "mallory"
	Name    = "widgets"
	Label   = "ralph"
	// Text is a plan of three tasks.
	Text = "- [ ] Write one\n- [ ] Write two\n- [ ] Write three\n"
)

// Stage is a repository with the App on it. Its clocks stand still.
type Stage struct {
	*ghsim.Sim
	t testing.TB

	// App is the App as GitHub knows it, and GitHub GitHub as the App sees it.
	App    ghsim.App
	GitHub *ghapp.App
	Repo   ghsim.Repo
	// Users are the people there are, by login.
	Users map[string]ghsim.User
	// Installation is the App's on the repository.
	Installation int64
	Store        *store.Store
	Receiver     *delivery.Receiver
	// Down has webhooks be refused.
	Down atomic.Bool

	seen int

	began time.Time
	// passed is what has passed for the App since then, and ticked what has for GitHub.
	passed, ticked atomic.Int64
}

// Now is the App's clock.
func (s *Stage) Now() time.Time { return s.began.Add(time.Duration(s.passed.Load())) }

// Pass lets time pass for the App.
func (s *Stage) Pass(d time.Duration) { s.passed.Add(int64(d)) }

// Tick lets a second pass for GitHub, whose times are in seconds, and for the App.
func (s *Stage) Tick() {
	s.ticked.Add(int64(time.Second))
	s.Pass(time.Second)
}

// queue wakes nobody: tests look at what is stored.
type queue struct{}

func (queue) Wake(*store.Tx, run.ID) {}

// New makes a stage; change, where it is not nil, makes the receiver another.
func New(t testing.TB, change func(*delivery.Config)) *Stage {
	t.Helper()
	// Tokens are made by the real clock, from which GitHub's must not be far.
	s := &Stage{t: t, began: time.Now().Truncate(time.Second), Users: map[string]ghsim.User{}}
	s.Sim = ghsimtest.Start(t, ghsim.Options{
		Clock: func() time.Time { return s.began.Add(time.Duration(s.ticked.Load())) },
	})
	for _, login := range []string{Ada, Eve, Mallory} {
		u, err := s.CreateUser(login)
		s.Must(err)
		s.Users[login] = u
	}
	var err error
	s.Repo, err = s.CreateRepo(Ada, Name, ghsim.RepoOptions{Files: map[string]string{"README.md": "# Widgets\n"}})
	s.Must(err)
	s.Must(s.SetPermission(Ada, Name, Eve, ghsim.RoleTriage))
	s.App, err = s.CreateApp(ghsim.AppOptions{
		Slug: "ralph-bot", PrivateKeyPEM: ghsimtest.Key(), Permissions: ghapp.Permissions(),
		Events: handlers.Subscriptions(),
	})
	s.Must(err)
	install, err := s.Install(s.App.ID, Ada+"/"+Name)
	s.Must(err)
	s.Installation = install.ID
	s.GitHub, err = ghapp.New(ghapp.Config{
		APIURL: s.URL() + "/api/v3/", GraphQLURL: s.URL() + "/api/graphql", WebURL: s.URL(), AppID: s.App.ID,
		PrivateKey: s.App.PrivateKeyPEM, WriteEvery: time.Microsecond,
	})
	s.Must(err)
	s.Store, err = store.Open(t.Context(), filepath.Join(t.TempDir(), "ralph.db"))
	s.Must(err)
	t.Cleanup(func() { s.Must(s.Store.Close()) })
	cfg := delivery.Config{
		Store: s.Store, Queue: queue{}, GitHub: s.GitHub, Decoder: handlers.Decoder{Label: Label, App: s.App.ID},
		People: config.DefaultPeople(), AgentName: "script",
		Limits: func(l run.Limits) run.Limits { return l.WithDefaults(run.DefaultLimits()) }, Now: s.Now,
	}
	if change != nil {
		change(&cfg)
	}
	s.Receiver = delivery.New(cfg)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if s.Down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(hook.Close)
	s.Must(s.SetHook(s.App.ID, hook.URL, ""))
	return s
}

// Must ends the test where err is one.
func (s *Stage) Must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// Write writes an issue as Ada.
func (s *Stage) Write(title, body string) ghsim.Issue {
	s.t.Helper()
	issue, err := s.CreateIssue(Ada, Name, Ada, title, body)
	s.Must(err)
	return issue
}

// PutLabel puts the label on.
func (s *Stage) PutLabel(login string, issue int) {
	s.t.Helper()
	s.Must(s.AddLabel(Ada, Name, issue, login, Label))
}

// TakeLabel takes the label off.
func (s *Stage) TakeLabel(login string, issue int) {
	s.t.Helper()
	s.Must(s.RemoveLabel(Ada, Name, issue, login, Label))
}

// Events are the webhooks that arrived since it was last asked, in the order in which GitHub sent
// them.
func (s *Stage) Events() []store.Delivery {
	s.t.Helper()
	s.Must(s.WaitIdle(s.t.Context()))
	all := s.AllDeliveries()
	slices.SortStableFunc(all, func(a, b ghsim.Delivery) int { return int(a.ID - b.ID) })
	var out []store.Delivery
	for _, d := range all[s.seen:] {
		if d.StatusCode/100 == 2 {
			out = append(out, store.Delivery{
				GUID: d.GUID, Event: d.Event, Action: d.Action, Installation: d.InstallationID, RepoNode: s.Repo.NodeID,
				Body: d.Payload, ReceivedAt: s.Now(),
			})
		}
	}
	s.seen = len(all)
	return out
}

// Work has all webhooks worked that arrived, and gives what became of the last.
func (s *Stage) Work() (outcome string) {
	s.t.Helper()
	for _, d := range s.Events() {
		outcome = s.Deliver(d)
	}
	return outcome
}

// Deliver has one webhook worked, and gives what became of it.
func (s *Stage) Deliver(d store.Delivery) (outcome string) {
	s.t.Helper()
	outcome, err := s.Receiver.Deliver(s.t.Context(), d)
	s.Must(err)
	return outcome
}

// Forge is a webhook like another, with parts of its payload, named by their paths, set to something else.
func (s *Stage) Forge(like store.Delivery, guid string, set map[string]any) store.Delivery {
	s.t.Helper()
	var payload map[string]any
	s.Must(json.Unmarshal(like.Body, &payload))
	for path, value := range set {
		at, keys := payload, strings.Split(path, ".")
		for _, key := range keys[:len(keys)-1] {
			below, ok := at[key].(map[string]any)
			if !ok {
				below = map[string]any{}
				at[key] = below
			}
			at = below
		}
		at[keys[len(keys)-1]] = value
	}
	body, err := json.Marshal(payload)
	s.Must(err)
	like.GUID, like.Body = guid, body
	return like
}

// Last is the newest webhook that arrived, and that nobody has asked for before.
func (s *Stage) Last() store.Delivery {
	s.t.Helper()
	events := s.Events()
	if len(events) == 0 {
		s.t.Fatal("no webhook arrived")
	}
	return events[len(events)-1]
}

// Said are the App's comments on an issue.
func (s *Stage) Said(issue int) []string {
	s.t.Helper()
	i, err := s.Issue(Ada, Name, issue)
	s.Must(err)
	var out []string
	for _, c := range i.Comments {
		if c.User == s.App.BotLogin {
			out = append(out, c.Body)
		}
	}
	return out
}

// SaysOnce fails unless the App has commented on an issue once, and said that, or has not where that is "".
func (s *Stage) SaysOnce(issue int, want, about string) {
	s.t.Helper()
	said := s.Said(issue)
	if want == "" && len(said) > 0 || want != "" && (len(said) != 1 || !strings.Contains(said[0], want)) {
		s.t.Errorf("%s: said %q, want %q once", about, said, want)
	}
}

// Runs are how many runs an issue had, and the newest of them.
func (s *Stage) Runs(issue int) (n int, last store.Run) {
	s.t.Helper()
	n, err := s.Store.RunsSince(s.t.Context(), s.Repo.NodeID, issue, s.Now().Add(-time.Hour*24))
	s.Must(err)
	if n > 0 {
		last, err = s.Store.LatestRunByIssue(s.t.Context(), s.Repo.NodeID, issue)
		s.Must(err)
	}
	return n, last
}

// Let changes who may use the App, and how often.
func (s *Stage) Let(change func(*config.People)) {
	change(&s.Receiver.People)
	s.Receiver.Authorizer.People = s.Receiver.People
}

// User makes somebody with a role in the repository.
func (s *Stage) User(login string, role ghsim.Role, custom ...string) {
	s.t.Helper()
	var err error
	s.Users[login], err = s.CreateUser(login)
	s.Must(err)
	s.Must(s.SetPermission(Ada, Name, login, role, custom...))
}

// Bot makes the bot of another App, which may act in the repository.
func (s *Stage) Bot(slug string) ghsim.App {
	s.t.Helper()
	app, err := s.CreateApp(ghsim.AppOptions{
		Slug: slug, PrivateKeyPEM: ghsimtest.Key(), Permissions: map[string]string{"issues": "write", "checks": "write"},
	})
	s.Must(err)
	_, err = s.Install(app.ID, Ada+"/"+Name)
	s.Must(err)
	return app
}

// Say has somebody comment on an issue or pull request.
func (s *Stage) Say(login string, number int, body string) ghsim.Comment {
	s.t.Helper()
	c, err := s.Comment(Ada, Name, number, login, body)
	s.Must(err)
	return c
}

// Reactions are the App's to a comment or a review, in order.
func (s *Stage) Reactions(number int, comment int64) string {
	s.t.Helper()
	var all []ghsim.Reaction
	look := func(id int64, reactions []ghsim.Reaction) {
		if id == comment {
			all = reactions
		}
	}
	i, err := s.Issue(Ada, Name, number)
	s.Must(err)
	for _, c := range i.Comments {
		look(c.ID, c.Reactions)
	}
	prs, err := s.PRs(Ada, Name)
	s.Must(err)
	for _, pr := range prs {
		for _, rv := range pr.Reviews {
			look(rv.ID, rv.Reactions)
			for _, l := range rv.Lines {
				look(l.ID, l.Reactions)
			}
		}
	}
	var out []string
	for _, r := range all {
		if r.User == s.App.BotLogin {
			out = append(out, r.Content)
		}
	}
	return strings.Join(out, " ")
}

// Begin has a new issue be worked by a run that has done nothing yet.
func (s *Stage) Begin() (issue int) {
	s.t.Helper()
	issue = s.Write("Say hello", Text).Number
	s.PutLabel(Ada, issue)
	s.Work()
	return issue
}

// State is that of the newest run of an issue.
func (s *Stage) State(issue int) loop.State {
	s.t.Helper()
	_, last := s.Runs(issue)
	state, err := loop.Decode(last.State)
	s.Must(err)
	return state
}

// Save changes the state of the newest run of an issue, as whoever drives it does.
func (s *Stage) Save(issue int, change func(*loop.State)) {
	s.t.Helper()
	_, last := s.Runs(issue)
	state := s.State(issue)
	change(&state)
	b, err := loop.Encode(state)
	s.Must(err)
	s.Must(s.Store.SaveState(s.t.Context(), last.ID, state.Phase, state.End, b, s.Now()))
}

// Pull opens the pull request of the newest run of an issue as the App does, and has that worked.
func (s *Stage) Pull(issue int) (number int) {
	s.t.Helper()
	branch := fmt.Sprintf("ralph/%d", issue)
	_, err := s.Push(Ada, Name, branch, Ada, ghsim.PushOptions{Message: "Say hello", Files: map[string]string{
		fmt.Sprintf("hello-%d.txt", issue): "one\ntwo\nthree\n",
	}})
	s.Must(err)
	pr, err := s.GitHub.Repo(s.Installation, Ada, Name).CreatePR(s.t.Context(),
		ghapp.PRInput{Title: "Say hello", Head: branch, Base: "main"})
	s.Must(err)
	_, last := s.Runs(issue)
	s.Must(s.Store.InTx(s.t.Context(), func(tx *store.Tx) error {
		return s.Store.NotePull(s.t.Context(), tx, last.ID, pr.Number)
	}))
	s.Work()
	return pr.Number
}

// Settle has a run take in what was said of an issue.
func (s *Stage) Settle(issue int) {
	s.t.Helper()
	s.Must(s.Store.InTx(s.t.Context(), func(tx *store.Tx) error {
		for _, in := range s.Inputs(issue) {
			if _, err := s.Store.SettleInput(s.t.Context(), tx, in.ID, store.InputDone, "taken in", ""); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Inputs are what was said of an issue and waits for a run.
func (s *Stage) Inputs(issue int, kinds ...store.InputKind) []store.Input {
	s.t.Helper()
	in, err := s.Store.PendingInputs(s.t.Context(), s.Repo.NodeID, issue, kinds...)
	s.Must(err)
	return in
}
