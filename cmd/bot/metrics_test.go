package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// ask gives the answer to a GET.
func ask(t testing.TB, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
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
	st.config.MetricsListen = "127.0.0.1:0"
	s := st.serve()
	issue := st.label(hostile, threeTasks)
	st.ended(s.store, issue)
	st.processed(s)
	s.metrics.handle(run.Event{
		Kind: run.EventAgentFinished, Repo: hostile, Subject: hostile, Model: hostile, Gate: hostile, TaskID: hostile,
		Hosts: []run.HostUse{{Host: hostile}}, Usage: run.Usage{CostUSD: 0.25},
	})
	var body string
	st.await("the end of the tick to be counted", func() bool {
		_, body = ask(t, "http://"+s.metricsAddr+"/metrics")
		return strings.Contains(body, `ralph_job_duration_seconds_count{kind="tick"}`)
	})
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
		if !slices.Contains([]string{"phase", "end", "code", "kind", "le"}, name) {
			t.Errorf("there is a label %s", name)
		}
	}
	for _, want := range []string{
		`ralph_runs_ended_total{end="all_tasks_complete"} 1`, "ralph_tasks_done_total 3", `ralph_runs{phase="iterating"} 0`,
		"ralph_deliveries_waiting 0", "ralph_cost_dollars_total 0.75",
		`ralph_webhooks_total{code="202"}`, `ralph_webhooks_total{code="401"} 0`, `ralph_runs_ended_total{end="failed"} 0`, "ralph_disk_free_bytes", "ralph_places_taken 0", "ralph_runs_in_line 0",
	} {
		if !strings.Contains(body, "\n"+want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if status, _ := ask(t, st.hookURL+"/metrics"); status != http.StatusNotFound {
		t.Errorf("strangers get %d", status)
	}
	if status, _ := ask(t, "http://"+s.metricsAddr+"/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("profiles are served: %d", status)
	}
}

// TestMetricsOfADatabaseThatCannotBeRead: nothing is served, rather than figures of before.
func TestMetricsOfADatabaseThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st, err := store.Open(t.Context(), filepath.Join(dir, "ralph.db"))
	if err != nil {
		t.Fatal(err)
	}
	h := newMetrics(standingMetrics{store: st, dataDir: dir, now: time.Now}).handler()
	for _, want := range []int{http.StatusOK, http.StatusInternalServerError} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		if w.Code != want || strings.Contains(w.Body.String(), "\nralph_places 0") != (want == http.StatusOK) {
			t.Errorf("status %d, want %d: %s", w.Code, want, w.Body)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
