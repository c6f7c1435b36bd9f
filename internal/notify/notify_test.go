package notify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/notify"
	"github.com/org/ralph-action/internal/run"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// failures collects what could not be delivered.
type failures struct {
	mu   sync.Mutex
	said []string
}

func (f *failures) add(target string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, target+": "+err.Error())
}

func (f *failures) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.said)
}

// mask knows one secret.
func mask(s string) string { return strings.ReplaceAll(s, "hunter2-hunter2", "***") }

func start(t *testing.T, cfg notify.Config) (*notify.Notifier, *failures) {
	t.Helper()
	said := &failures{}
	cfg.Mask, cfg.Failed = mask, said.add
	if cfg.Pauses == nil {
		cfg.Pauses = []time.Duration{time.Millisecond, time.Millisecond}
	}
	n, err := notify.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Drop)
	return n, said
}

// closeSoon waits so long for what is waiting to be delivered.
func closeSoon(n *notify.Notifier, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n.Close(ctx)
}

const patience = 30 * time.Second

// receiver keeps what is posted to it.
type receiver struct {
	*httptest.Server

	mu    sync.Mutex
	posts []post
	// answers are the codes of the next answers; 204 when there are none.
	answers []int
	came    chan struct{}
}

type post struct {
	header http.Header
	path   string
	body   []byte
}

func newReceiver(t *testing.T, answers ...int) *receiver {
	t.Helper()
	r := &receiver{answers: answers, came: make(chan struct{}, 1000)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	r.posts = append(r.posts, post{req.Header, req.Host + req.URL.Path, body})
	code := http.StatusNoContent
	if len(r.answers) > 0 {
		code, r.answers = r.answers[0], r.answers[1:]
	}
	r.mu.Unlock()
	if code >= 300 && code < 400 {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(code)
	r.came <- struct{}{}
}

func (r *receiver) all() []post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.posts)
}

// story is what a run of two tasks and seven iterations tells.
func story(id run.ID) []run.Event {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	events := []run.Event{{Kind: run.EventRunStarted, Total: 2}}
	for i := 1; i <= 7; i++ {
		events = append(events, run.Event{Kind: run.EventIteration, Iteration: i, Iterations: i, TaskID: "T1", Total: 2})
		if i == 4 {
			events = append(events, run.Event{
				Kind: run.EventTaskDone, Iteration: i, TaskID: "T1", Done: 1, Total: 2, CostUSD: 0.5,
			})
		}
	}
	events = append(events, run.Event{
		Kind: run.EventRunEnded, Iteration: 7, Iterations: 7, End: run.EndBlocked,
		Text: "T2 fails:\nno such @host, hunter2-hunter2", CostUSD: 1.25,
	})
	for i := range events {
		events[i].Run, events[i].Repo, events[i].Subject, events[i].URL = id, "acme/app", "Add a flag",
			"https://github.example/acme/app/issues/7"
		events[i].Time = at.Add(time.Duration(i) * time.Minute)
		if events[i].Kind == run.EventIteration && i > 6 {
			events[i].Done = 1
		}
	}
	return events
}

func TestWebhookGetsTheStory(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t)
	n, failed := start(t, notify.Config{
		Targets: []notify.Target{{Name: "hook", URL: hook.URL + "/in?token=abcdefghij", Secret: secret}}, Every: 3,
	})
	for _, ev := range story("r1") {
		n.Handle(ev)
		n.Handle(ev) // a step that is repeated tells it again
	}
	closeSoon(n, patience)
	if got := failed.all(); len(got) > 0 {
		t.Errorf("failed: %v", got)
	}
	common := notify.Message{
		Version: 1, Run: "r1", Repository: "acme/app", Subject: "Add a flag", URL: "https://github.example/acme/app/issues/7",
		Tasks: 2,
	}
	message := func(n run.Notice, iteration, done int, cost float64, minute int, id, summary string) notify.Message {
		m := common
		m.Notice, m.Iteration, m.TasksDone, m.CostUSD, m.Summary, m.ID = n, iteration, done, cost, summary, id
		m.Time = time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC)
		return m
	}
	end := message(run.NoticeNeedsHuman, 7, 1, 1.25, 9, "r1.needs_human.7",
		"Stopped: all remaining tasks are blocked. 1 of 2 tasks done after 7 iterations, $1.25.")
	end.End, end.Detail = run.EndBlocked, "T2 fails: no such @host, ***"
	want := []notify.Message{
		message(run.NoticeStart, 0, 0, 0, 0, "r1.start.0", "Started: 0 of 2 tasks done."),
		message(run.NoticeProgress, 3, 0, 0, 4, "r1.progress.4", "After 3 iterations: 0 of 2 tasks done."),
		message(run.NoticeProgress, 6, 1, 0, 8, "r1.progress.7", "After 6 iterations: 1 of 2 tasks done."),
		end,
	}
	var got []notify.Message
	for _, p := range hook.all() {
		var m notify.Message
		if err := json.Unmarshal(p.body, &m); err != nil {
			t.Fatal(err)
		}
		got = append(got, m)
		if p.header.Get("Webhook-Id") != m.ID || !strings.HasPrefix(p.header.Get("Webhook-Signature"), "v1,") {
			t.Errorf("headers %v", p.header)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWhoIsToldWhat(t *testing.T) {
	t.Parallel()
	type told map[string][]string
	everything := []string{"start", "progress", "needs_human"}
	tests := map[string]struct {
		repo string
		want told
	}{
		"all that is set up": {
			repo: "acme/app", want: told{"all": everything, "ends": {"needs_human"}, "acme": everything},
		},
		"another repository": {repo: "other/app", want: told{"all": everything, "ends": {"needs_human"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hook := newReceiver(t)
			n, _ := start(t, notify.Config{Targets: []notify.Target{
				{Name: "all", URL: hook.URL + "/all", Secret: secret},
				{Name: "ends", URL: hook.URL + "/ends", Secret: secret, Notices: []run.Notice{run.NoticeFinish}},
				{
					Name: "acme", URL: hook.URL + "/acme", Secret: secret,
					Serves: func(repo string) bool { return strings.HasPrefix(repo, "acme/") },
				},
			}})
			for _, ev := range story("r1") {
				ev.Repo = tt.repo
				n.Handle(ev)
			}
			closeSoon(n, patience)
			got := told{}
			for _, p := range hook.all() {
				var m notify.Message
				if err := json.Unmarshal(p.body, &m); err != nil {
					t.Fatal(err)
				}
				_, target, _ := strings.Cut(p.path, "/")
				got[target] = append(got[target], string(m.Notice))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAFailingWebhook(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answers []int
		posts   int
		failed  string
	}{
		"once":                 {[]int{503}, 2, ""},
		"asks to slow down":    {[]int{429, 429}, 3, ""},
		"always":               {[]int{500, 502, 503}, 3, "answered 503"},
		"does not want it":     {[]int{410}, 1, "answered 410"},
		"sends it elsewhere":   {[]int{307}, 1, "answered 307"},
		"sends it to the past": {[]int{301}, 1, "answered 301"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hook := newReceiver(t, tt.answers...)
			n, failed := start(t, notify.Config{
				Targets: []notify.Target{{Name: "hook", URL: hook.URL + "/a-long-secret-path", Secret: secret}},
			})
			n.Handle(story("r1")[0])
			closeSoon(n, patience)
			if got := len(hook.all()); got != tt.posts {
				t.Errorf("%d posts, want %d", got, tt.posts)
			}
			for _, p := range hook.all() {
				if strings.HasSuffix(p.path, "/elsewhere") {
					t.Error("a redirection was followed")
				}
			}
			said := strings.Join(failed.all(), "\n")
			if (said == "") != (tt.failed == "") || !strings.Contains(said, tt.failed) {
				t.Errorf("said %q, want %q", said, tt.failed)
			}
			if strings.Contains(said, "secret") {
				t.Errorf("the address is told: %s", said)
			}
		})
	}
}

// A target that hangs holds up neither the run nor other targets.
func TestAHangingWebhook(t *testing.T) {
	t.Parallel()
	hanging := make(chan struct{})
	stuck := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-hanging:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(stuck.Close)
	t.Cleanup(func() { close(hanging) })
	hook := newReceiver(t)
	n, failed := start(t, notify.Config{Timeout: time.Hour, Targets: []notify.Target{
		{Name: "stuck", URL: stuck.URL, Secret: secret, Notices: []run.Notice{run.NoticeStart}},
		{Name: "hook", URL: hook.URL, Secret: secret},
	}})
	for i := range 100 {
		ev := story(run.ID(fmt.Sprint(i)))[0]
		n.Handle(ev)
		<-hook.came // while the other still waits for its first answer
	}
	ended, end := context.WithCancel(t.Context())
	end()
	n.Close(ended)
	if got := len(hook.all()); got != 100 {
		t.Errorf("%d messages arrived", got)
	}
	said := strings.Join(failed.all(), "\n")
	if !strings.Contains(said, "stuck: too many messages are queued") ||
		!strings.Contains(said, "not delivered before the end") {
		t.Errorf("said %s", said)
	}
}

// TestAFullQueueKeepsEnds: progress makes room for the end of a run, then a start, and then
// what is oldest.
func TestAFullQueueKeepsEnds(t *testing.T) {
	t.Parallel()
	came, hanging := make(chan struct{}, 100), make(chan struct{})
	hook := newReceiver(t)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		<-hanging
		hook.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	n, failed := start(t, notify.Config{
		Timeout: time.Hour, Targets: []notify.Target{{Name: "slow", URL: slow.URL, Secret: secret}},
	})
	begin := func(id string) { n.Handle(story(run.ID(id))[0]) }
	begin("first")
	<-came // the queue is empty
	end := func(id string) { events := story(run.ID(id)); n.Handle(events[len(events)-1]) }
	for i := range 61 {
		end(fmt.Sprint(i))
	}
	begin("a")
	begin("b")
	for _, ev := range story("long")[1:] { // its progress, and its end
		n.Handle(ev)
	}
	begin("last")
	for i := 61; i < 64; i++ {
		end(fmt.Sprint(i))
	}
	close(hanging)
	closeSoon(n, patience)
	var arrived []string
	for _, p := range hook.all() {
		var m notify.Message
		if err := json.Unmarshal(p.body, &m); err != nil {
			t.Fatal(err)
		}
		arrived = append(arrived, string(m.Notice)+" "+string(m.Run))
	}
	want := []string{"start first"}
	for i := 1; i < 61; i++ {
		want = append(want, fmt.Sprint("needs_human ", i))
	}
	want = append(want, "needs_human long", "needs_human 61", "needs_human 62", "needs_human 63")
	if diff := cmp.Diff(want, arrived); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	said := failed.all()
	lost := []string{"(progress)", "(start)", "(start)", "(start)", "(needs_human)"}
	if len(said) != len(lost) {
		t.Fatalf("said %q", said)
	}
	for i, notice := range lost {
		if !strings.Contains(said[i], notice) {
			t.Errorf("said %q, want %s", said[i], notice)
		}
	}
}

// A program gets the message on its standard input, and nothing of it as an
// argument or in its environment.
func TestScript(t *testing.T) {
	t.Setenv("DEPLOY_TOKEN", "hunter2-hunter2")
	dir := t.TempDir()
	program, out := filepath.Join(dir, "tell"), filepath.Join(dir, "out")
	source := "#!/bin/sh\n{ echo \"$#\"; env; echo; cat; } >" + out + "\nprintf %s \"$1\" >" + out + ".text\n"
	if err := os.WriteFile(program, []byte(source), 0o700); err != nil {
		t.Fatal(err)
	}
	n, failed := start(t, notify.Config{Targets: []notify.Target{{Name: "script", Script: program}}})
	ev := story("r1")[0]
	ev.Subject = "$(touch pwned); `touch pwned` \"'\n--flag"
	n.Handle(ev)
	closeSoon(n, patience)
	if got := failed.all(); len(got) > 0 {
		t.Errorf("failed: %v", got)
	}
	said, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(said), "\n\n")
	if !strings.HasPrefix(head, "1\n") || strings.Contains(head, "touch") || strings.Contains(head, "hunter2") ||
		!strings.Contains(head, "RALPH_EVENT=start") {
		t.Errorf("arguments and environment:\n%s", head)
	}
	var m notify.Message
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatal(err)
	}
	if want := "$(touch pwned); `touch pwned` \"' --flag"; m.Subject != want {
		t.Errorf("subject %q", m.Subject)
	}
	text, err := os.ReadFile(out + ".text")
	if want := m.Title() + "\n" + m.Summary; err != nil || !strings.HasPrefix(string(text), want) {
		t.Errorf("the argument is %q (%v), want %q", text, err, want)
	}
}

func TestAFailingScript(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "tell")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$RALPH_EVENT\" >>\"$0.told\"\necho no luck >&2\nexit 3\n"),
		0o700); err != nil {
		t.Fatal(err)
	}
	n, failed := start(t, notify.Config{
		Targets: []notify.Target{{Name: "script", Script: program}}, Pauses: []time.Duration{time.Hour},
	})
	events := story("r1")
	n.Handle(events[0])
	n.Handle(events[len(events)-1])
	closeSoon(n, patience)
	if got := failed.all(); len(got) != 2 || !strings.Contains(got[0], "exit status 3: no luck") {
		t.Errorf("said %q", got)
	}
	if told, err := os.ReadFile(program + ".told"); err != nil || string(told) != "start\nneeds_human\n" {
		t.Errorf("told %q, %v", told, err)
	}
}

func TestTargetsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		target notify.Target
		want   string
	}{
		"nothing":            {notify.Target{}, "address is missing"},
		"plain http":         {notify.Target{URL: "http://hook.example/x", Secret: secret}, "unencrypted"},
		"no secret":          {notify.Target{URL: "https://hook.example/x"}, "needs a signing secret"},
		"a short secret":     {notify.Target{URL: "https://hook.example/x", Secret: "c2hvcnQ="}, "at least 24 bytes"},
		"a secret of words":  {notify.Target{URL: "https://hook.example/x", Secret: "correct horse battery"}, "base64"},
		"another service":    {notify.Target{URL: "gotify://host/tokentokentoken"}, "none of https"},
		"an option of Slack": {notify.Target{URL: slackURL + "?color=good"}, "a webhook of Slack is https://hooks.slack.com/"},
		"half of Slack's":    {notify.Target{URL: "https://hooks.slack.com/services/swordfish-swordfish"}, "a webhook of Slack is"},
		"half of Discord's":  {notify.Target{URL: "https://discord.com/api/webhooks/1"}, "a webhook of Discord is"},
		"Telegram for nobody": {
			notify.Target{URL: "https://api.telegram.org/bot123456789:AAbbccddeeffgghhiijjkkllmmnnooppqqr/sendMessage"}, "chat_id=CHAT",
		},
		"a relative program":   {notify.Target{Script: "tell"}, "not absolute"},
		"a word for a command": {notify.Target{Script: "rm -rf /"}, "not absolute"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.target.Name = "team"
			_, err := tt.target.Kind()
			if err == nil || !strings.Contains(err.Error(), "notifications: team: ") || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v, want %q", err, tt.want)
			}
			for _, part := range []string{"swordfish", "AAbbcc"} {
				if strings.Contains(err.Error(), part) {
					t.Errorf("the error shows the address: %v", err)
				}
			}
			if _, err := notify.New(notify.Config{Targets: []notify.Target{tt.target}}); err == nil {
				t.Error("New takes it")
			}
		})
	}
}

func TestLongAndHostileText(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t)
	n, _ := start(t, notify.Config{Targets: []notify.Target{{Name: "hook", URL: hook.URL, Secret: secret}}})
	ev := story("r1")[len(story("r1"))-1]
	ev.Repo = "/home/ada/secret/place/app"
	ev.Subject = "\x1b]0;x\x07hunter2-\nhunter2 \u202ehunter2-hunter2" + strings.Repeat("ä", 10_000)
	ev.Text = strings.Repeat("long ", 100_000)
	n.Handle(ev)
	closeSoon(n, patience)
	got := hook.all()
	if len(got) != 1 || len(got[0].body) > 2000 {
		t.Fatalf("%d posts", len(got))
	}
	var m notify.Message
	if err := json.Unmarshal(got[0].body, &m); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(m.Subject, "hunter2- hunter2 ***ää") || !strings.HasSuffix(m.Subject, "ä…") ||
		m.Repository != "app" {
		t.Errorf("%q of %q", m.Subject, m.Repository)
	}
}
