package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// operator gives commands about the server of a stage, as a person types them.
type operator struct {
	*stage

	file string
}

func (st *stage) operator() operator { return operator{st, st.writeConfig()} }

// does runs a command that has to succeed.
func (o operator) does(args ...string) string {
	o.t.Helper()
	code, out := o.bot(append(args, "--config", o.file)...)
	if code != 0 {
		o.t.Fatalf("%v ended with %d: %s", args, code, out)
	}
	return out
}

// reads runs a command with --json and reads what it prints into out.
func (o operator) reads(out any, args ...string) {
	o.t.Helper()
	if err := json.Unmarshal([]byte(o.does(append(args, "--json")...)), out); err != nil {
		o.t.Fatal(err)
	}
}

// agentStarted says whether any agent was started.
func (s *serving) agentStarted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.events, func(ev run.Event) bool { return ev.Kind == run.EventAgentStarted })
}

// A paused server takes webhooks and starts no agent, also when it is started again;
// resumed, it goes on.
func TestPauseSurvivesARestart(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	op := st.operator()
	s := st.serve()
	st.readyz() // answered when the server is up
	if out := op.does("pause"); !strings.Contains(out, "paused since") {
		t.Errorf("pause says %q", out)
	}
	issue := st.label("Say hello", threeTasks)
	for _, when := range []string{"before", "after"} {
		st.processed(s)
		var q queueState
		st.await("the run to be held", func() bool {
			var err error
			q, err = s.queueState(t.Context())
			return err == nil && q.Held == 1
		})
		op.reads(&q, "queue")
		if q.Paused == nil || q.Held != 1 || q.Working != 0 || s.agentStarted() {
			t.Errorf("%s the restart: %+v, agents were started: %v", when, q, s.agentStarted())
		}
		if when == "before" {
			s.stop()
			if code, out := st.bot("queue", "--config", op.file); code != run.ExitUsage {
				t.Errorf("a server that is not there: %d, %s", code, out)
			}
			s = st.serve()
			st.readyz()
		}
	}
	var runs []serverRun
	op.reads(&runs, "runs")
	if len(runs) != 1 || !runs[0].Held || runs[0].Issue != issue.Number || runs[0].Repo != person+"/"+repoOf {
		t.Errorf("%+v", runs)
	}
	if out := op.does("resume"); !strings.Contains(out, "New agents are started.") {
		t.Errorf("resume says %q", out)
	}
	if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	var audit []auditLine
	op.reads(&audit, "audit", "--person", "operator")
	var did []string
	for _, d := range audit {
		did = append(did, d.Action)
	}
	if !slices.Equal(did, []string{"pause", "resume"}) {
		t.Errorf("the audit has %v", did)
	}
}

// Draining waits for what is at work, and ends with the process.
func TestDrainWaitsForWhatIsAtWork(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: hangsOnTwo})
	op := st.operator()
	s := st.serve()
	issue := st.label("Say hello", threeTasks)
	st.agentAt(s, "T2")
	type result struct {
		code int
		out  string
	}
	drained := make(chan result, 1)
	go func() {
		code, out := st.bot("drain", "--config", op.file)
		drained <- result{code, out}
	}()
	st.watchOthers()
	st.await("the server to drain", s.draining.Load)
	row, err := s.store.LatestRunByIssue(t.Context(), st.repo.NodeID, issue.Number)
	if err != nil {
		t.Fatal(err)
	}
	shown := op.does("show", string(row.ID))
	if !strings.Contains(shown, "[x] T1") || !strings.Contains(shown, fmt.Sprintf("%s/%s#%d", person, repoOf, issue.Number)) {
		t.Errorf("show says:\n%s", shown)
	}
	select {
	case r := <-drained:
		t.Fatalf("drained while an agent is at work: %d %s", r.code, r.out)
	default:
	}
	op.does("stop", string(row.ID)[:len(row.ID)-1])
	if state := st.ended(s.store, issue); state.End != run.EndCancelled || !strings.Contains(state.EndDetail, "operator") {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	if r := <-drained; r.code != 0 || !strings.Contains(r.out, "Nothing is at work") {
		t.Errorf("drain ended with %d: %s", r.code, r.out)
	}
	if code, _ := st.bot("stop", "--config", op.file, string(row.ID)); code != run.ExitUsage {
		t.Errorf("a run that has ended was stopped, %d", code)
	}
	s.stop()
	s = st.serve()
	if q, err := s.queueState(t.Context()); err != nil || q.Draining || q.Paused != nil {
		t.Errorf("a server that was started again drains: %+v, %v", q, err)
	}
}

// The operator has a blocked task tried again, in the name of who asked for the run; not
// once they may not ask any more.
func TestOperatorRetries(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: "model: scripted\ndefault: [{misbehave: crash}]\n"})
	st.config.Limits.TaskAttempts = 1
	op := st.operator()
	s := st.serve()
	st.user("grace", ghsim.RoleWrite)
	issue := st.newIssue(person, "Say hello", threeTasks)
	st.relabel(issue, "grace")
	first := st.ended(s.store, issue)
	if first.End == run.EndAllTasksComplete {
		t.Fatalf("ended %s", first.End)
	}
	st.processed(s)
	st.script(writesAll)
	op.does("retry", "--run", string(first.Run))
	again := st.another(s, issue, first.Run)
	if again.End != run.EndAllTasksComplete || again.Subject.RequestedBy != "grace" {
		t.Errorf("ended %s for %s: %s", again.End, again.Subject.RequestedBy, again.EndDetail)
	}
	var audit []auditLine
	op.reads(&audit, "audit", "--person", "operator")
	if len(audit) != 1 || !audit[0].Allowed || !strings.Contains(audit[0].Reason, "grace") {
		t.Errorf("the audit has %+v", audit)
	}
}

// The audit lists who was refused and who approved.
func TestAuditListsARefusalAndAnApproval(t *testing.T) {
	t.Parallel()
	st, s := approvalStage(t)
	op := st.operator()
	st.user("eve", ghsim.RoleTriage)
	issue := st.label("Say hello", threeTasks)
	state := st.ended(s.store, issue)
	st.processed(s)
	st.comment(issue.Number, "eve", "/ralph approve")
	st.processed(s)
	st.comment(issue.Number, person, "/ralph approve")
	st.another(s, issue, state.Run)
	st.processed(s)
	var all, refused []auditLine
	op.reads(&all, "audit", "--repo", person+"/"+repoOf, "--issue", fmt.Sprint(issue.Number))
	op.reads(&refused, "audit", "--refused")
	var got []string
	for _, d := range all {
		got = append(got, fmt.Sprintf("%s %s %v", d.Person, d.Action, d.Allowed))
		if d.Delivery == "" || d.At.IsZero() {
			t.Errorf("it is not known when or by what: %+v", d)
		}
	}
	want := []string{"ada label true", "eve /ralph approve false", "ada /ralph approve true"}
	if !slices.Equal(got, want) {
		t.Errorf("the audit has %q, want %q", got, want)
	}
	if len(refused) != 1 || refused[0].Person != "eve" || !strings.Contains(refused[0].Reason, "triage") {
		t.Errorf("refused were %+v", refused)
	}
	if out := op.does("audit"); !strings.Contains(out, "refused") || !strings.Contains(out, "/ralph approve") {
		t.Errorf("audit says:\n%s", out)
	}
}

// onSocket asks the admin socket as any program on the machine could.
func (s *serving) onSocket(t *testing.T, method, url string, header map[string]string) (status int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", adminSocket(s.cfg.DataDir))
	}}}
	defer client.CloseIdleConnections()
	return get(t, client, method, url, header)
}

func get(t *testing.T, client *http.Client, method, url string, header map[string]string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// Attack: names that other people choose become labels, of which there is no end.
func TestMetricsHaveBoundedLabels(t *testing.T) {
	t.Parallel()
	const hostile = `evil"} 1`
	st := newStage(t, setting{script: writesAll})
	s := st.serve()
	issue := st.label(hostile, threeTasks)
	st.ended(s.store, issue)
	st.processed(s)
	s.metrics.handle(run.Event{
		Kind: run.EventAgentFinished, Repo: hostile, Subject: hostile, Model: hostile, Gate: hostile, TaskID: hostile,
		Hosts: []run.HostUse{{Host: hostile}}, Usage: run.Usage{CostUSD: 0.25},
	})
	_, body := s.onSocket(t, http.MethodGet, "http://ralph-bot/metrics", nil)
	for _, no := range []string{"evil", repoOf, person, "scripted"} {
		if regexp.MustCompile(`\b` + no + `\b`).MatchString(body) {
			t.Errorf("%q is in the metrics", no)
		}
	}
	labels := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ralph_\w+\{([^}]*)\}`).FindAllStringSubmatch(body, -1) {
		for pair := range strings.SplitSeq(m[1], ",") {
			name, _, _ := strings.Cut(pair, "=")
			labels[name] = true
		}
	}
	for name := range labels {
		if !slices.Contains([]string{"phase", "end", "status", "kind", "le"}, name) {
			t.Errorf("there is a label %s", name)
		}
	}
	for _, want := range []string{
		`ralph_runs_ended_total{end="all_tasks_complete"} 1`, "ralph_tasks_done_total 3", `ralph_runs{phase="iterating"} 0`,
		"ralph_deliveries_waiting 0", "ralph_paused 0", "ralph_cost_dollars_total 0.75", `ralph_job_duration_seconds_count{kind="tick"}`,
		`ralph_webhooks_total{status="202"}`, "ralph_disk_free_bytes", "ralph_places_taken 0", "ralph_runs_in_line 0", "ralph_github_away 0",
		"ralph_writes_kept 0",
	} {
		if !strings.Contains(body, "\n"+want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// Attack: strangers, and pages in a browser on the same machine.
func TestAdminIsTheOperatorsAlone(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	st.config.MetricsListen = "127.0.0.1:0"
	s := st.serve()
	for _, path := range []string{"/metrics", "/runs", "/queue", "/debug/pprof/", "/audit"} {
		if status, _ := get(t, http.DefaultClient, http.MethodGet, st.hookURL+path, nil); status != http.StatusNotFound {
			t.Errorf("strangers get %d for %s", status, path)
		}
	}
	for name, ask := range map[string]struct {
		url    string
		header map[string]string
		want   int
	}{
		"the operator":        {"http://ralph-bot/queue", nil, http.StatusOK},
		"profiles":            {"http://ralph-bot/debug/pprof/goroutine?debug=1", nil, http.StatusOK},
		"another name":        {"http://evil.example/queue", nil, http.StatusForbidden},
		"a page":              {"http://ralph-bot/queue", map[string]string{"Origin": "http://ralph-bot"}, http.StatusForbidden},
		"a page's navigation": {"http://ralph-bot/queue", map[string]string{"Sec-Fetch-Site": "none"}, http.StatusForbidden},
	} {
		if status, body := s.onSocket(t, http.MethodGet, ask.url, ask.header); status != ask.want {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if status, _ := s.onSocket(t, http.MethodGet, "http://ralph-bot/pause", nil); status != http.StatusMethodNotAllowed {
		t.Errorf("a link changes things: %d", status)
	}
	for path, want := range map[string]os.FileMode{adminSocket(st.config.DataDir): 0o600, st.config.DataDir + "/admin": 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	metrics := "http://" + s.metricsAddr
	if status, body := get(t, http.DefaultClient, http.MethodGet, metrics+"/metrics", nil); status != http.StatusOK ||
		!strings.Contains(body, "ralph_paused 0") {
		t.Errorf("metrics: %d %.100s", status, body)
	}
	for _, path := range []string{"/runs", "/debug/pprof/"} {
		if status, _ := get(t, http.DefaultClient, http.MethodGet, metrics+path, nil); status != http.StatusNotFound {
			t.Errorf("the metrics' port gives %d for %s", status, path)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, metrics+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("under another name: %d, %v", resp.StatusCode, err)
	}
}

// A server that was killed leaves its socket; the next one has it, and keeps it when the
// one before ends late.
func TestAdminSocketIsTheLatestServers(t *testing.T) {
	t.Parallel()
	dir := shortTempDir(t)
	first, err := listenAdmin(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := listenAdmin(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	c, err := (&net.Dialer{Timeout: time.Minute}).DialContext(t.Context(), "unix", adminSocket(dir))
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir + "/admin"); err != nil || len(left) != 0 {
		t.Errorf("%v stay, %v", left, err)
	}
	if _, err := listenAdmin(t.Context(), dir+"/"+strings.Repeat("x", 100)); err == nil {
		t.Error("a path that is too long was taken")
	}
}

// What is old goes, and nothing that a run needs: not the mirror of a run that waits,
// nor its directory.
func TestGCKeepsWhatRunsNeed(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	op := st.operator()
	s := st.serve()
	first := st.ended(s.store, st.label("Say hello", threeTasks))
	if first.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", first.End, first.EndDetail)
	}
	st.processed(s)
	data := st.config.DataDir
	stale := func() {
		t.Helper()
		old := time.Now().Add(-15 * 24 * time.Hour)
		for _, pattern := range []string{"mirrors/*.git", "trees/*/*"} {
			found, err := filepath.Glob(filepath.Join(data, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range found {
				if err := os.Chtimes(path, old, old); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	counts := func(lines []gcLine) string {
		var got []string
		for _, l := range lines {
			got = append(got, fmt.Sprintf("%s %d", l.Kind, l.Count))
		}
		slices.Sort(got)
		return strings.Join(got, ", ")
	}
	// A run that waits needs its mirror and its directory.
	st.script(hangsOnTwo)
	second := st.label("Say more", threeTasks)
	st.await("the second run's agent", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.events, func(ev run.Event) bool {
			return ev.Kind == run.EventAgentStarted && ev.TaskID == "T2" && ev.Run != first.Run
		})
	})
	if err := os.MkdirAll(filepath.Join(data, "runs", "r-of-nobody"), 0o700); err != nil {
		t.Fatal(err)
	}
	stale()
	var lines []gcLine
	op.reads(&lines, "gc", "--dry-run")
	if got := counts(lines); !strings.Contains(got, "directories of ended runs 1") || strings.Contains(got, "mirrors") {
		t.Errorf("a dry run says %s", got)
	}
	if _, err := os.Stat(filepath.Join(data, "runs", "r-of-nobody")); err != nil {
		t.Errorf("a dry run removed something: %v", err)
	}
	op.does("gc")
	row, err := s.store.LatestRunByIssue(t.Context(), st.repo.NodeID, second.Number)
	if err != nil {
		t.Fatal(err)
	}
	mirrors, err := filepath.Glob(filepath.Join(data, "mirrors", "*.git"))
	if err != nil || len(mirrors) != 1 {
		t.Errorf("mirrors: %v, %v", mirrors, err)
	}
	left, err := os.ReadDir(filepath.Join(data, "runs"))
	if err != nil || len(left) != 1 || left[0].Name() != string(row.ID) {
		t.Errorf("directories: %v, %v", left, err)
	}
	op.does("stop", string(row.ID))
	st.ended(s.store, second)
	st.processed(s)
	stale()
	op.reads(&lines, "gc")
	if got := counts(lines); !strings.Contains(got, "mirrors 1") || !strings.Contains(got, "kept work trees") {
		t.Errorf("removed: %s", got)
	}
	if mirrors, err = filepath.Glob(filepath.Join(data, "mirrors", "*")); err != nil || slices.ContainsFunc(mirrors, func(path string) bool {
		return !strings.HasSuffix(path, ".lock")
	}) {
		t.Errorf("mirrors: %v, %v", mirrors, err)
	}
	// The next run has all it needs again.
	st.script(writesAll)
	if third := st.ended(s.store, st.label("Say it again", threeTasks)); third.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", third.End, third.EndDetail)
	}
}

// The configuration is read again on request and on SIGHUP: a limit holds for the next
// run, what needs a restart is named, and a file that is not right changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	op := st.operator()
	p := st.startProgram(theProgram(t), "serve", "--config", op.file)
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Wait()
	})
	st.waitHealthy(p)
	st.hook(p.addr)
	right, err := os.ReadFile(op.file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(op.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ended := func(issue int) (r serverRun) {
		t.Helper()
		st.await("the end of the run", func() bool {
			var all []serverRun
			op.reads(&all, "runs")
			i := slices.IndexFunc(all, func(r serverRun) bool { return r.Issue == issue })
			if i >= 0 {
				r = all[i]
			}
			return r.End != ""
		})
		return r
	}
	write(strings.Replace(string(right), "limits:\n", "limits:\n  max_iterations: none\n", 1))
	if code, _ := st.bot("reload", "--config", op.file); code != run.ExitUsage {
		t.Errorf("a file that is not right gives %d", code)
	}
	write(strings.Replace(string(right), "limits:\n", "limits:\n  max_iterations: 1\n", 1) + "label: other\n")
	var got reloaded
	op.reads(&got, "reload")
	if !slices.Equal(got.Changed, []string{"limits"}) || !slices.Equal(got.Kept, []string{"label"}) {
		t.Errorf("reload says %+v", got)
	}
	if r := ended(st.label("Say hello", threeTasks).Number); r.End != string(run.EndMaxIterations) || r.Done != 1 {
		t.Errorf("ended %+v", r)
	}
	// By a signal; the file as it was.
	write(string(right))
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	st.await("the signal to be heard", func() bool {
		var did []auditLine
		op.reads(&did, "audit", "--person", "operator")
		return len(did) == 2
	})
	if r := ended(st.label("Say more", threeTasks).Number); r.End != string(run.EndAllTasksComplete) {
		t.Errorf("ended %+v", r)
	}
}

// Every field of the configuration has the name that its file has for it.
func TestKeysOfTheServer(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[config.Server]().Fields() {
		key := serverKey(f.Name)
		if f.Name != "Private" && f.Name != "SecretFiles" && !regexp.MustCompile("(?m)^\\| `"+regexp.QuoteMeta(key)+"[`.[]").Match(doc) {
			t.Errorf("there is no key %q", key)
		}
	}
}

// Where many webhooks wait for long others are refused before they are read, and taken
// again when the server has kept up.
func TestBehindWebhooksAreRefusedEarly(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	s := st.serve()
	st.watchOthers()
	n := 0
	insert := func(count int) {
		t.Helper()
		err := s.store.InTx(t.Context(), func(tx *store.Tx) error {
			for range count {
				n++
				if _, err := s.store.InsertDelivery(t.Context(), tx, store.Delivery{
					GUID: fmt.Sprintf("waits-%d", n), Event: "push", Body: []byte("{}"), ReceivedAt: time.Now().Add(-2 * time.Minute),
				}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	send := func() int {
		n++
		return st.send("push", fmt.Sprintf("g-%d", n), map[string]any{})
	}
	insert(behindCount - 1)
	if status := send(); status != http.StatusAccepted {
		t.Errorf("a few that wait make others be refused: %d", status)
	}
	st.await("webhooks to be refused", func() bool {
		insert(behindCount) // the queue finds those that wait from time to time
		return send() == http.StatusServiceUnavailable
	})
	st.await("webhooks to be accepted", func() bool {
		err := s.store.InTx(t.Context(), func(tx *store.Tx) error {
			left, err := s.store.UnprocessedDeliveries(t.Context(), tx, 10_000)
			for _, guid := range left {
				err = errors.Join(err, s.store.MarkDelivery(t.Context(), tx, guid, "done", time.Now()))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return send() == http.StatusAccepted
	})
}
