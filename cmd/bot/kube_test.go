//go:build kube

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox/kube/kubetest"
	"github.com/org/ralph-action/internal/store"
)

// TestKubeLabelBecomesPullRequest: agents and checks run in pods.
func TestKubeLabelBecomesPullRequest(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	exe, kubeconfig := builtBot(t), filepath.Join(st.dir, "kubeconfig")
	const image = "test.local/bot:1"
	if err := kubetest.SetUp(t.Context(), "../..", image, exe, kubeconfig); err != nil {
		t.Fatal(err)
	}
	c := st.config
	file := filepath.Join(st.dir, "ralph.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, `listen: %s
github: {api_url: %s, graphql_url: %s, web_url: %s, app_id: %d}
data_dir: %s
agent: {name: script, script_file: %s}
sandbox:
  kind: kubernetes
  image: %s
  kubernetes: {kubeconfig: %s, bot_image: %s}
gates:
  - name: confined
    run: test "$(id -u)" != 0 && grep -Eq '^CapEff:[[:space:]]0+$' /proc/self/status && ! touch /etc/x && test -z "$KUBERNETES_SERVICE_HOST"
  - {name: not empty, run: test -s one.txt}
welcome: false
log: {level: warn}
`, c.Listen, c.GitHub.APIURL, c.GitHub.GraphQLURL, c.GitHub.WebURL, c.GitHub.AppID, c.DataDir, c.Agent.ScriptFile, image,
		kubeconfig, image), 0o600); err != nil {
		t.Fatal(err)
	}
	p := st.command(exe, "serve", "--config", file)
	close(p.lines) // nothing is read from its stdout
	p.addr = c.Listen
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	st.waitHealthy(p)
	st.hook(p.addr)
	kept, err := store.Open(t.Context(), filepath.Join(c.DataDir, "ralph.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kept.Close(); err != nil {
			t.Error(err)
		}
	})
	state := st.ended(kept, st.label("Say hello to everybody", threeTasks))
	if state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s after %d iterations: %s\n%+v", state.End, state.Iteration, state.EndDetail, state.History)
	}
	p.stop(t)
	want := map[string]string{"README.md": "# widgets\n", "one.txt": "1\n", "two.txt": "2\n", "three.txt": "3\n"}
	if diff := gocmp.Diff(want, st.contents("ralph/1")); diff != "" {
		t.Error(diff)
	}
	if pr := st.onlyPR(); pr.Draft || !strings.Contains(pr.Body, "confined") || len(pr.Commits) != 4 {
		t.Errorf("draft %v, %d commits:\n%s", pr.Draft, len(pr.Commits), pr.Body)
	}
}
