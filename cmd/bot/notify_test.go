package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/notify"
	"github.com/org/ralph-action/internal/run"
)

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// hooks is a receiver of notifications, by the path that each came to. What is
// sent to /stuck is never answered.
type hooks struct {
	*httptest.Server

	// bell rings for each message.
	bell *bell

	mu       sync.Mutex
	messages map[string][]notify.Message
}

func newHooks(t *testing.T) *hooks {
	t.Helper()
	h := &hooks{bell: newBell(), messages: map[string][]notify.Message{}}
	h.Server = httptest.NewServer(h.bell.wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/stuck" {
			<-r.Context().Done()
			return
		}
		var m notify.Message
		if err := json.Unmarshal(body, &m); err != nil {
			t.Error(err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.messages[r.URL.Path] = append(h.messages[r.URL.Path], m)
	})))
	t.Cleanup(h.Close)
	return h
}

func (h *hooks) target(name string) config.NotifyTarget {
	return config.NotifyTarget{Name: name, URL: config.Secret(h.URL + "/" + name), Secret: hookSecret}
}

// told gives event, subject, end and address of what came to a target.
func (h *hooks) told(name string) [][4]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out [][4]string
	for _, m := range h.messages["/"+name] {
		out = append(out, [4]string{string(m.Notice), m.Subject, string(m.End), m.URL})
	}
	return out
}

// The App tells its targets of runs, each of what it wants, while one of them answers
// nothing at all.
func TestAppNotifies(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	st := newStage(t, setting{
		script: writesAll, files: map[string]string{"README.md": "# widgets\n"},
		change: func(cfg *config.Server) {
			others, team := h.target("others"), h.target("team")
			others.Repositories = []string{"acme/*"}
			team.Notices = []run.Notice{run.NoticeStart, run.NoticeFinish}
			cfg.Notify.Every = 1
			cfg.Notify.Targets = []config.NotifyTarget{team, h.target("stuck"), others}
		},
	})
	s := st.serve()
	issue := st.label("Say hello to @everybody", threeTasks)
	if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	awaitBell(t, h.bell, "the message of the end", func() bool { return len(h.told("team")) == 2 })
	st.processed(s)
	want := [][4]string{
		{"start", "Say hello to @everybody", "", issueURL(st, issue)},
		{"finish", "Say hello to @everybody", "all_tasks_complete", issueURL(st, issue)},
	}
	if diff := cmp.Diff(want, h.told("team")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := h.told("others"); len(got) > 0 {
		t.Errorf("others were told %v", got)
	}
}

func issueURL(st *stage, issue ghsim.Issue) string {
	return strings.TrimSuffix(st.sim.URL(), "/") + "/" + person + "/" + repoOf + "/issues/" + fmt.Sprint(issue.Number)
}
