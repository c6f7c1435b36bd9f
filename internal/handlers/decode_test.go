package handlers_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/handlers"
)

func subject() handlers.Subject {
	return handlers.Subject{
		Owner: "Codertocat", Repo: "Hello-World", RepoNode: "MDEwOlJlcG9zaXRvcnkxODY4NTMwMDI=", Installation: 11,
		Issue: 1, IssueNode: "MDU6SXNzdWU0NDQ1MDAwNDE=",
		SenderLogin: "Codertocat", SenderID: 21031067, SenderType: "User",
		At: time.Date(2019, 5, 15, 15, 20, 18, 0, time.UTC),
	}
}

func start() handlers.StartIntent {
	return handlers.StartIntent{
		Subject: subject(),
		Title:   "Spelling error in the README file", Body: "It looks like you accidently spelled 'commit' with two 't's.", //nolint:misspell // as in GitHub's example
		Author: handlers.Author{Login: "Codertocat", ID: 21031067, Type: "User"},
	}
}

func stop(reason handlers.StopReason) handlers.StopIntent {
	return handlers.StopIntent{Subject: subject(), Reason: reason}
}

func TestDecodeIssues(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	brackets := strings.Repeat(`[{"\`, 500)
	bot := fields{"sender.type": "Bot"}
	with := func(base fields, more fields) fields {
		out := maps.Clone(base)
		maps.Copy(out, more)
		return out
	}
	change := func(s handlers.StartIntent, f func(*handlers.StartIntent)) handlers.Intent {
		f(&s)
		return s
	}
	byBot := func(s handlers.StopIntent) handlers.Intent {
		s.SenderType = "Bot"
		return s
	}
	for _, tc := range []struct {
		name string
		set  fields
		want handlers.Intent
	}{
		{"labelled", nil, start()},
		{"labelled in another case", fields{"label.name": "BUG"}, start()},
		{"without a body", fields{"issue.body": nil},
			change(start(), func(s *handlers.StartIntent) { s.Body = "" })},
		{"brackets in text, which nest nothing", fields{"issue.title": brackets},
			change(start(), func(s *handlers.StartIntent) { s.Title = brackets })},
		{"in an organisation", fields{"repository.owner.login": "acme"},
			change(start(), func(s *handlers.StartIntent) { s.Owner = "acme" })},
		{"unlabelled", fields{"action": "unlabeled"}, stop(handlers.StopUnlabeled)},
		{"closed", fields{"action": "closed", "label": nil}, stop(handlers.StopClosed)},
		{"deleted", fields{"action": "deleted", "label": nil}, stop(handlers.StopDeleted)},
		{"transferred", fields{"action": "transferred", "label": nil}, stop(handlers.StopTransferred)},
		{"closed by a bot", with(bot, fields{"action": "closed", "label": nil}), byBot(stop(handlers.StopClosed))},

		{"another label", fields{"label.name": "bugs"}, nil},
		{"a label like ours", fields{"label.name": "bug "}, nil},
		{"another label taken off", fields{"action": "unlabeled", "label.name": "wontfix"}, nil},
		// Who may is asked later; that it was none is kept.
		{"labelled by a bot", bot, change(start(), func(s *handlers.StartIntent) { s.SenderType = "Bot" })},
		{"labelled by a bot whose name is a person's", with(bot, fields{"sender.login": "ann"}),
			change(start(), func(s *handlers.StartIntent) { s.SenderType, s.SenderLogin = "Bot", "ann" })},
		{"labelled by an organisation", fields{"sender.type": "Organization"},
			change(start(), func(s *handlers.StartIntent) { s.SenderType = "Organization" })},
		{
			"labelled by who knows", fields{"sender.type": ""},
			change(start(), func(s *handlers.StartIntent) { s.SenderType = "" }),
		},
		{"locked", fields{"action": "locked", "label": nil}, stop(handlers.StopLocked)},
		{"unlabelled by a bot", with(bot, fields{"action": "unlabeled"}), nil},
		{"a closed issue", fields{"issue.state": "closed"}, nil},
		{"a pull request", fields{"issue.pull_request": fields{"url": "https://api.github.com/x"}}, nil},
		{"a pull request closed", fields{"action": "closed", "issue.pull_request": fields{}}, nil},
		{"opened", fields{"action": "opened"}, nil},
		{"reopened", fields{"action": "reopened"}, nil},
		{"edited", fields{"action": "edited"}, handlers.EditIntent{Subject: subject(), Text: handlers.Text{
			Title: start().Title, Body: start().Body, Author: start().Author, Labels: []string{"bug"},
		}}},
		{"no action", fields{"action": ""}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := handlers.Decoder{Label: "bug"}
			got, err := d.Decode("issues", payload(t, "issues.labeled", tc.set))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeHostilePayloads(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	for name, body := range map[string][]byte{
		"nothing":                   nil,
		"not JSON":                  []byte("labeled"),
		"cut":                       payload(t, "issues.labeled", nil)[:500],
		"an array":                  []byte(`[]`),
		"null":                      []byte(`null`),
		"empty":                     []byte(`{}`),
		"two documents":             []byte(`{}{}`),
		"nested arrays":             []byte(strings.Repeat("[", 1<<20)),
		"nested objects":            []byte(strings.Repeat(`{"a":`, 1<<20)),
		"number as a string":        payload(t, "issues.labeled", fields{"issue.number": "1"}),
		"number with a fraction":    payload(t, "issues.labeled", fields{"issue.number": 1.5}),
		"number out of range":       payload(t, "issues.labeled", fields{"issue.number": 1e30}),
		"number below one":          payload(t, "issues.labeled", fields{"issue.number": -1}),
		"title as an object":        payload(t, "issues.labeled", fields{"issue.title": fields{}}),
		"issue as a string":         payload(t, "issues.labeled", fields{"issue": "I_1"}),
		"time that is none":         payload(t, "issues.labeled", fields{"issue.updated_at": "yesterday"}),
		"no issue":                  payload(t, "issues.labeled", fields{"issue": nil}),
		"no issue node":             payload(t, "issues.labeled", fields{"issue.node_id": nil}),
		"no repository":             payload(t, "issues.labeled", fields{"repository": nil}),
		"no owner":                  payload(t, "issues.labeled", fields{"repository.owner": nil}),
		"no installation":           payload(t, "issues.labeled", fields{"installation": nil}),
		"no sender":                 payload(t, "issues.labeled", fields{"sender": nil}),
		"sender without an id":      payload(t, "issues.labeled", fields{"sender.id": nil}),
		"installation as an object": payload(t, "issues.labeled", fields{"installation.id": fields{}}),
		"that of a comment":         payload(t, "issues.labeled", fields{"action": "deleted", "comment": fields{"id": 1}}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := handlers.Decoder{Label: "bug"}
			if got, err := d.Decode("issues", body); err == nil {
				t.Errorf("decoded to %+v", got)
			}
		})
	}
}

// A conversation that is opened a second time is news, also where GitHub does not
// say when: its description has the time as optional.
func TestThreadsWithoutATime(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, at := range []string{"2026-11-01T10:00:00Z", "2026-11-01T11:00:00Z"} {
		body := payload(t, "issues.labeled", map[string]any{
			"action": "unresolved", "thread": map[string]any{"node_id": "PRRT_1", "comments": []any{map[string]any{"id": 5}}},
			"pull_request": map[string]any{"number": 3, "node_id": "PR_3", "updated_at": at},
		})
		intent, err := (&handlers.Decoder{Label: "bug"}).Decode("pull_request_review_thread", body)
		said, ok := intent.(handlers.FeedbackIntent)
		if err != nil || !ok || said.Detail == nil {
			t.Fatalf("%+v, %v", intent, err)
		}
		if seen[said.Source] {
			t.Errorf("%s names what was said before, too", said.Source)
		}
		seen[said.Source] = true
	}
}

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil || len(files) == 0 {
		f.Fatal("no payloads", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add("issues", raw)
	}
	f.Add("issues", payload(f, "issues.labeled", nil))
	f.Add("issues", payload(f, "issues.labeled", map[string]any{"action": "closed"}))
	f.Add("push", []byte(`{"a":[{}]}`))
	f.Fuzz(func(t *testing.T, event string, body []byte) {
		d := handlers.Decoder{Label: "bug"}
		intent, err := d.Decode(event, body)
		if err != nil {
			if intent != nil {
				t.Errorf("both %+v and %v", intent, err)
			}
			return
		}
		var s handlers.Subject
		switch i := intent.(type) {
		case nil:
			return
		case handlers.StartIntent:
			s = i.Subject
		case handlers.StopIntent:
			s = i.Subject
			if i.Reason == "" {
				t.Errorf("stops for no reason: %+v", i)
			}
		case handlers.EditIntent:
			s = i.Subject
		case handlers.CommandIntent:
			s = i.Subject
			if !strings.Contains(strings.ToLower(i.Comment.Body), "ralph") || i.Comment.ID < 1 || (i.Problem == "") == (i.Command.Verb == "") {
				t.Errorf("commands: %+v", i)
			}
		case handlers.RemarkIntent:
			s = i.Subject
		case handlers.WithdrawIntent:
			s = i.Subject
		case handlers.WakeIntent:
			s = i.Subject
		case handlers.FeedbackIntent:
			if s = i.Subject; i.Source == "" || i.Kind == "" {
				t.Errorf("says: %+v", i)
			}
			if s.Head != "" && s.Pull == 0 { // checks are of a branch
				return
			}
		default:
			return
		}
		if s.Owner == "" || s.Repo == "" || s.RepoNode == "" || s.IssueNode == "" || s.Issue+s.Pull < 1 ||
			s.Installation < 1 || s.SenderLogin == "" || s.SenderID < 1 {
			t.Errorf("subject is not whole: %+v", s)
		}
	})
}
