package delivery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/delivery/deliverytest"
	"github.com/org/ralph-action/internal/ghsim"
)

// account is somebody as webhooks name them.
type account struct {
	Login string `json:"login"`
	ID    int64  `json:"id"`
	Type  string `json:"type"`
}

// crowd are those who turn up at a repository. The server listens to the bot of renovate.
func crowd(st *deliverytest.Stage) map[string]account {
	st.User("grace", ghsim.RoleWrite)
	st.User("joan", ghsim.RoleMaintain)
	st.User("contractor", ghsim.RoleWrite, "contractor") // a custom role built on write
	st.User("writer", ghsim.RoleTriage, "writer")        // and one that only sounds like it
	st.User("reader", ghsim.RoleRead)
	st.User("ralph-bot-bot", ghsim.RoleTriage) // people, named like bots
	st.User("renovate-bot", ghsim.RoleTriage)
	renovate, evil, actions := st.Bot("renovate"), st.Bot("evil"), st.Bot("github-actions")
	st.Let(func(p *config.People) {
		p.Bots = []int64{renovate.BotID}
		p.CommandsPerPerson, p.CommandsPerIssue = 0, 0
	})
	who := map[string]account{
		"stranger":       {"stranger", 1 << 40, "User"}, // whom GitHub does not know
		"renovate":       {renovate.BotLogin, renovate.BotID, "Bot"},
		"evil":           {evil.BotLogin, evil.BotID, "Bot"},
		"false renovate": {renovate.BotLogin, evil.BotID, "Bot"},
		"a workflow":     {actions.BotLogin, actions.BotID, "Bot"},
		"the App":        {st.App.BotLogin, st.App.BotID, "Bot"},
	}
	for login, u := range st.Users {
		who[login] = account{login, u.ID, "User"}
	}
	who["an organisation"] = account{ada, who[ada].ID, "Organization"}
	who["a mannequin"] = account{ada, who[ada].ID, "Mannequin"}
	who["nothing known"] = account{ada, who[ada].ID, ""}
	return who
}

// TestB1B3B4B6B9WhoMayStart by the label: the role counts that somebody has now, and neither a badge,
// a name nor the rights of whoever lends a hand.
func TestB1B3B4B6B9WhoMayStart(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	who := crowd(st)
	for _, tt := range []struct {
		by, author string
		// runs is on whose behalf there is a run, "" for none; said is in the one comment, "" for none.
		runs, said string
	}{
		{by: ada, runs: ada},
		{by: "grace", runs: "grace"},
		{by: "joan", runs: "joan"},
		{by: "contractor", runs: "contractor"},
		{by: ada, author: mallory, runs: ada}, // who has read it
		{by: eve, said: "has the role `triage`"},
		{by: eve, author: ada, said: "has the role `triage`"},
		{by: "writer", said: "has the role `writer`"},
		{by: "reader", said: "has the role `read`"},
		{by: mallory, said: "`mallory` has the role `read`"},
		{by: "stranger", said: "has no role"},
		{by: "ralph-bot-bot", said: "has the role `triage`"},
		{by: "renovate-bot", author: ada, said: "has the role `triage`"},
		{by: "evil", author: ada, said: "is a bot"},
		{by: "false renovate", author: ada, said: "is a bot"},
		{by: "a workflow", author: ada, said: "`people.bots`"},
		{by: "an organisation", author: ada, said: "is a bot"},
		{by: "a mannequin", author: ada, said: "is a bot"},
		{by: "nothing known", author: ada, said: "is a bot"},
		{by: "the App", author: ada},
		{by: "renovate", author: ada, runs: ada},
		{by: "renovate", author: "grace", runs: "grace"},
		{by: "renovate", author: eve, said: "`eve` wrote the text"},
		{by: "renovate", author: mallory, said: "`mallory` wrote the text"},
		{by: "renovate", author: "renovate", said: "is a bot"},
		{by: "renovate", author: "evil", said: "wrote the text"},
	} {
		name := tt.by + " labels what " + tt.author + " wrote"
		author, ok := who[tt.author]
		if !ok {
			author = who[tt.by]
		}
		issue := st.Write("Say hello", deliverytest.Text).Number
		st.PutLabel(ada, issue)
		event := st.Forge(st.Last(), name, map[string]any{
			"sender": who[tt.by], "issue.user": author, "issue.author_association": "OWNER",
		})
		for i := range 3 { // who toggles it does not make the App talk on
			event.GUID = fmt.Sprint(name, i)
			st.Deliver(event)
			st.Pass(time.Minute)
		}
		runs := ""
		if n, _ := st.Runs(issue); n > 0 {
			runs = st.State(issue).Subject.RequestedBy
		}
		if runs != tt.runs {
			t.Errorf("%s: a run for %q, want %q", name, runs, tt.runs)
		}
		st.SaysOnce(issue, tt.said, name)
	}
}

// TestB2WhoMayCommand: as for the label, and bots never: those that answer each other would never
// end.
func TestB2WhoMayCommand(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	who := crowd(st)
	const no, starts = "-1", "rocket"
	for _, tt := range []struct {
		by, author, body string
		reaction, said   string
		runs             bool
	}{
		{by: ada, reaction: starts, runs: true},
		{by: "contractor", reaction: starts, runs: true},
		{by: eve, reaction: no, said: "`eve` has the role `triage`"},
		{by: "writer", reaction: no, said: "has the role `writer`"},
		{by: mallory, reaction: no, said: "Commands require write access"},
		{by: mallory, body: "/ralph dance", reaction: no, said: "Commands require write access"},
		{by: mallory, body: "/ralph approve", reaction: no, said: "Commands require write access"},
		{by: mallory, body: "/ralph do mine coins", reaction: no, said: "Commands require write access"},
		{by: "stranger", reaction: no, said: "has no role"},
		{by: ada, author: mallory, reaction: no}, // who may has sent what a stranger wrote
		{by: mallory, author: ada, reaction: no, said: "`mallory` has the role `read`"},
		{by: "evil"}, {by: "a workflow"}, {by: "the App"}, {by: "an organisation"}, {by: "nothing known"},
		{by: "renovate"}, {by: "renovate", author: ada}, // which may label
		{by: ada, body: "> /ralph start"}, {by: ada, body: "```\n/ralph start\n```"},
		{by: ada, body: "/r\u0430lph start"}, {by: mallory, body: "> /ralph start"},
	} {
		author, body := who[tt.by], "/ralph start"
		if tt.author != "" {
			author = who[tt.author]
		}
		if tt.body != "" {
			body = tt.body
		}
		name := fmt.Sprintf("%q by %s in the name of %s", body, tt.by, author.Login)
		issue := st.Write("Say hello", deliverytest.Text).Number
		comment := st.Say(ada, issue, "A word before.")
		event := st.Forge(st.Last(), name, map[string]any{
			"sender": who[tt.by], "comment.user": author, "comment.author_association": "OWNER", "comment.body": body,
		})
		st.Deliver(event)
		if n, _ := st.Runs(issue); n > 0 != tt.runs {
			t.Errorf("%s: %d runs", name, n)
		}
		if got := st.Reactions(issue, comment.ID); got != tt.reaction {
			t.Errorf("%s: reactions %q, want %q", name, got, tt.reaction)
		}
		event = st.Forge(event, name+" again", map[string]any{"comment.id": comment.ID + 1<<30})
		st.Deliver(event) // the same in another comment
		if !tt.runs {
			st.SaysOnce(issue, tt.said, name)
		}
		if left := st.Inputs(issue); len(left) > 0 {
			t.Errorf("%s: kept %+v", name, left)
		}
	}
	// What the App wrote in somebody's name is its own doing.
	issue := st.Write("Say hello", deliverytest.Text).Number
	st.Say(ada, issue, "/ralph start")
	if got := st.Deliver(st.Forge(st.Last(), "own", map[string]any{
		"comment.performed_via_github_app": map[string]any{"id": st.App.ID},
	})); got != "nothing to do" {
		t.Errorf("what the App wrote: %s", got)
	}
}

// TestB8NoAnswerIsNo: where GitHub does not say who may, nobody may, once it has had its time, and the
// issue says so.
func TestB8NoAnswerIsNo(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	const dropped = "dropped once"
	for name, tt := range map[string]struct {
		fault ghsim.Fault
		// later: the delivery fails at first, and is worked again.
		later bool
		runs  bool
		said  string
	}{
		"403": {
			ghsim.Fault{Status: 403, Body: `{"message":"Resource not accessible by integration"}`, Times: 1}, false, false,
			"did not say",
		},
		"404":          {ghsim.Fault{Status: 404, Body: `{"message":"Not Found"}`, Times: 1}, false, false, "has no role"},
		"5xx once":     {ghsim.Fault{Status: 503, Body: "{}", Times: 1}, true, true, ""},
		dropped:        {ghsim.Fault{Drop: true, Times: 1}, false, true, ""},
		"5xx for good": {ghsim.Fault{Status: 502, Body: "<html>", Times: 2}, true, false, "did not say"},
	} {
		st.Pass(2 * time.Minute) // no answer is remembered
		issue := st.Write("Say hello", deliverytest.Text).Number
		st.PutLabel(ada, issue)
		event := st.Last()
		tt.fault.Method, tt.fault.Match = "GET", "/collaborators/ada/permission$"
		st.Must(st.Inject(tt.fault))
		_, err := st.Receiver.Deliver(t.Context(), event)
		// net/http asks again by itself where it had used the connection before.
		if (err != nil) != tt.later && name != dropped {
			t.Errorf("%s: at first: %v", name, err)
		}
		if n, _ := st.Runs(issue); tt.later && (n != 0 || len(st.Said(issue)) != 0) {
			t.Errorf("%s: something was decided without an answer", name)
		}
		st.Pass(10 * time.Minute)
		st.Must(st.Receiver.Work(t.Context(), event.GUID))
		if n, _ := st.Runs(issue); n > 0 != tt.runs {
			t.Errorf("%s: %d runs", name, n)
		}
		st.SaysOnce(issue, tt.said, name)
	}
}

// TestB7TheRoleIsTheOneOfNow, not of when the event was sent, nor longer ago than a minute.
func TestB7TheRoleIsTheOneOfNow(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	st.User("grace", ghsim.RoleTriage)
	for _, ask := range []func(issue int){
		func(issue int) { st.PutLabel("grace", issue) },
		func(issue int) { st.Say("grace", issue, "/ralph start") },
	} {
		for _, is := range []ghsim.Role{ghsim.RoleWrite, ghsim.RoleTriage} {
			was := map[ghsim.Role]ghsim.Role{ghsim.RoleWrite: ghsim.RoleTriage, ghsim.RoleTriage: ghsim.RoleWrite}[is]
			st.Must(st.SetPermission(ada, repo, "grace", was))
			issue := st.Write("Say hello", deliverytest.Text).Number
			ask(issue)
			event := st.Last()
			st.Say("grace", issue, "/ralph status") // so GitHub is asked what she may do
			st.Work()
			st.Must(st.SetPermission(ada, repo, "grace", is))
			st.Pass(time.Minute + time.Second)
			st.Deliver(event)
			if n, _ := st.Runs(issue); n > 0 != (is == ghsim.RoleWrite) {
				t.Errorf("%s: %d runs of somebody with the role %s, who had %s", event.Event, n, is, was)
			}
			st.Pass(time.Minute + time.Second)
		}
	}
}

// TestB5Limits: a program that writes as a person comes to a limit, and a person is called for; one who
// may not is not told of limits.
func TestB5Limits(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*config.People){
		"commands of a person": func(p *config.People) { p.CommandsPerPerson = 3 },
		"commands on an issue": func(p *config.People) { p.CommandsPerIssue = 3 },
		"runs of an issue":     func(p *config.People) { p.RunsPerIssue = 2 },
	} {
		st := deliverytest.New(t, nil)
		st.Let(limit)
		issue := st.Write("Say hello", deliverytest.Text).Number
		for range 4 {
			st.Say(ada, issue, "/ralph start")
			st.Work()
			if n, _ := st.Runs(issue); n > 0 && !st.State(issue).Phase.Terminal() {
				st.Save(issue, cancelled)
			}
		}
		st.Say(mallory, issue, "/ralph status")
		if got := st.Work(); name == "commands on an issue" && got != "too often" {
			t.Errorf("an outsider: %s", got)
		}
		said := strings.Join(st.Said(issue), "\n")
		i, err := st.Issue(ada, repo, issue)
		st.Must(err)
		if strings.Count(said, "Too many requests") != 1 || !slices.Contains(i.Labels, "ralph:needs-human") {
			t.Errorf("%s: labels %v, said:\n%s", name, i.Labels, said)
		}
		if n, _ := st.Runs(issue); n > 3 || name == "runs of an issue" && n != 2 {
			t.Errorf("%s: %d runs", name, n)
		}
		st.Pass(time.Hour + time.Minute)
		st.Say(ada, issue, "/ralph start")
		if got := st.Work(); got != "carried out" {
			t.Errorf("%s: an hour later: %s", name, got)
		}
	}
}

// TestWhoMayPress the buttons of the App's check run.
func TestWhoMayPress(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	who := crowd(st)
	for _, tt := range []struct {
		name, by, button string
		of               map[string]any
		outcome          string
	}{
		{name: "triage", by: eve, button: "retry", outcome: "refused"},
		{name: "an outsider", by: mallory, button: "retry", outcome: "refused"},
		{name: "a bot", by: "renovate", button: "retry", outcome: "too often"},
		{name: "another button", by: ada, button: "merge", outcome: "nothing to do"},
		{name: "on another App's", by: ada, button: "retry", of: map[string]any{"check_run.app.id": 7}, outcome: "nothing to do"},
		{
			name: "of no run", by: ada, button: "retry", of: map[string]any{"check_run.external_id": "r-none"},
			outcome: "not about a run of ours",
		},
		{
			name: "in another repository", by: ada, button: "retry", of: map[string]any{"repository.node_id": "R_other"},
			outcome: "not about a run of ours",
		},
		{name: "retry of one at work", by: ada, button: "retry", outcome: "carried out"},
		{name: "retry", by: ada, button: "retry", outcome: "carried out"}, // another run begins
	} {
		issue := st.Begin()
		if tt.name == "retry" {
			st.Save(issue, cancelled)
		}
		_, last := st.Runs(issue)
		st.Say(ada, issue, "A word.")
		event := st.Forge(st.Last(), tt.name, map[string]any{
			"action": "requested_action", "requested_action.identifier": tt.button, "sender": who[tt.by],
			"check_run.external_id": last.ID, "check_run.app.id": st.App.ID,
		})
		event = st.Forge(event, tt.name, tt.of)
		event.Event = "check_run"
		if got := st.Deliver(event); got != tt.outcome {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.outcome)
		}
		if runs, why := live(t, st, issue); !runs {
			t.Errorf("%s: not at work: %s", tt.name, why)
		}
		st.SaysOnce(issue, "", tt.name)
	}
}

// TestA7RepositoriesOfOthers: the operator says where the App works.
func TestA7RepositoriesOfOthers(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	st.Let(func(p *config.People) { p.Repositories = []string{"somebody/else"} })
	issue := st.Write("Say hello", deliverytest.Text).Number
	st.PutLabel(ada, issue)
	st.Work()
	st.Say(ada, issue, "/ralph start")
	const elsewhere = "the server does not work in this repository"
	if got := st.Work(); got != elsewhere || len(st.Said(issue)) != 0 {
		t.Errorf("%s, said %q", got, st.Said(issue))
	}
	if n, _ := st.Runs(issue); n != 0 {
		t.Errorf("%d runs", n)
	}
}
