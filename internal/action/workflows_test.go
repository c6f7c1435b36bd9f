package action

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

// manifest is what is looked at of action.yml.
type manifest struct {
	Inputs  map[string]struct{ Description, Default string }
	Outputs map[string]struct{ Description, Value string }
	Runs    struct{ Steps []stepOf }
}

type stepOf struct {
	ID, If, Uses, Run, Shell string
	With                     map[string]any
	Env                      map[string]string
}

func load[T any](t *testing.T, file string) (v T, source string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(b, &v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return v, string(b)
}

const top = "../../"

// What action.yml offers is what the program reads, and all of it gets there.
func TestManifestAndProgramAgree(t *testing.T) {
	t.Parallel()
	m, _ := load[manifest](t, top+"action.yml")
	var names []string
	for f := range reflect.TypeFor[Inputs]().Fields() {
		if name := f.Tag.Get("json"); name != "agent_program" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(m.Inputs))); diff != "" {
		t.Errorf("inputs (- the program, + action.yml):\n%s", diff)
	}
	last := m.Runs.Steps[len(m.Runs.Steps)-1]
	if last.ID != "ralph" || last.Env[inputsVariable] != "${{ toJSON(inputs) }}" || last.Env[programVariable] == "" {
		t.Errorf("the last step is %+v", last)
	}
	var outputs []string
	for _, o := range (Result{}).outputs() {
		outputs = append(outputs, o.Name)
		if want := fmt.Sprintf("${{ steps.ralph.outputs.%s }}", o.Name); m.Outputs[o.Name].Value != want {
			t.Errorf("output %s is %q, want %q", o.Name, m.Outputs[o.Name].Value, want)
		}
	}
	slices.Sort(outputs)
	if diff := cmp.Diff(outputs, slices.Sorted(maps.Keys(m.Outputs))); diff != "" {
		t.Errorf("outputs (- the program, + action.yml):\n%s", diff)
	}
}

// Every input and output is in the documentation, and nothing else is.
func TestManifestIsDocumented(t *testing.T) {
	t.Parallel()
	m, _ := load[manifest](t, top+"action.yml")
	b, err := os.ReadFile(top + "docs/action.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(b), -1) {
		documented = append(documented, row[1])
	}
	want := append(slices.Collect(maps.Keys(m.Inputs)), slices.Collect(maps.Keys(m.Outputs))...)
	slices.Sort(want)
	slices.Sort(documented)
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("- action.yml, + docs/action.md:\n%s", diff)
	}
}

// workflow is what is looked at of a workflow.
type workflow struct {
	On          any
	Permissions any
	Concurrency struct{ Group string }
	Jobs        map[string]struct {
		If          string
		Needs       any // a name, or several
		Outputs     map[string]string
		Concurrency struct {
			Group  string
			Cancel any `yaml:"cancel-in-progress"`
			Queue  string
		}
		Permissions any
		Timeout     int `yaml:"timeout-minutes"`
		Env         map[string]string
		Steps       []stepOf
	}
}

func triggers(on any) []string {
	switch on := on.(type) {
	case string:
		return []string{on}
	case []any:
		var all []string
		for _, t := range on {
			all = append(all, fmt.Sprint(t))
		}
		return all
	case map[string]any:
		return slices.Collect(maps.Keys(on))
	}
	return nil
}

var pinned = regexp.MustCompile(`^([A-Za-z0-9._/-]+@[0-9a-f]{40}|actions/[a-z-]+@v\d+\.\d+\.\d+)$`)

// audit finds what makes a workflow dangerous to have.
func audit(w workflow, m manifest) []string {
	var found []string
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for _, on := range triggers(w.On) {
		if on == "pull_request_target" || on == "workflow_run" {
			add("%s runs with secrets on what strangers wrote", on)
		}
	}
	grants := func(where string, p any) {
		switch p := p.(type) {
		case nil:
			add("%s does not say its permissions", where)
		case string:
			add("%s has the permissions %s", where, p)
		case map[string]any:
			for name, level := range p {
				known := slices.Contains([]string{
					"attestations", "checks", "contents", "id-token", "issues", "packages", "pull-requests",
				}, name)
				if !known || level != "read" && level != "write" {
					add("%s has %s: %v", where, name, level)
				}
			}
		}
	}
	grants("the workflow", w.Permissions)
	for name, job := range w.Jobs {
		if len(w.Jobs) > 1 || w.Permissions == nil {
			grants("job "+name, job.Permissions)
		}
		if job.Timeout == 0 {
			add("job %s has no timeout", name)
		}
		for _, step := range job.Steps {
			if strings.Contains(step.Run, "${{") {
				add("job %s puts an expression into a shell line", name)
			}
			if script, ok := step.With["script"].(string); ok && strings.Contains(script, "${{") {
				add("job %s puts an expression into a script", name)
			}
			own := step.Uses == "./" || strings.HasPrefix(step.Uses, "org/ralph-action@")
			if step.Uses != "" && !own && !pinned.MatchString(step.Uses) {
				add("%s is not pinned", step.Uses)
			}
			if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
				add("job %s leaves a token in the checkout", name)
			}
			for input := range step.With {
				if _, ok := m.Inputs[input]; own && !ok {
					add("job %s gives the action %s, which it does not know", name, input)
				}
			}
		}
	}
	for _, job := range w.Jobs {
		works := slices.ContainsFunc(job.Steps, func(s stepOf) bool {
			return strings.HasPrefix(s.Uses, "org/ralph-action@") && s.With["mode"] != modeRoute
		})
		if queue := job.Concurrency; works && (queue.Group == "" || queue.Cancel != false) {
			add("a run of the action may be ended by the next one")
		}
	}
	slices.Sort(found)
	return found
}

func TestWorkflowsAreSafeToCopy(t *testing.T) {
	t.Parallel()
	m, _ := load[manifest](t, top+"action.yml")
	files, err := filepath.Glob(top + "examples/workflows/*.yml")
	own, err2 := filepath.Glob(top + ".github/workflows/*.yml")
	if err != nil || err2 != nil || len(files) == 0 || len(own) == 0 {
		t.Fatal(files, own, err, err2)
	}
	for _, file := range append(files, own...) {
		w, _ := load[workflow](t, file)
		for _, problem := range audit(w, m) {
			t.Errorf("%s: %s", filepath.Base(file), problem)
		}
	}
	for _, step := range m.Runs.Steps {
		if strings.Contains(step.Run, "${{") {
			t.Errorf("action.yml: step %s puts an expression into a shell line", step.ID)
		}
	}
}

// Whichever way an event has come, what works on an issue waits in one queue, and the job before it
// gets neither a key nor more permissions than it needs.
func TestWorkflowRoutesToTheQueueOfAnIssue(t *testing.T) {
	t.Parallel()
	w, _ := load[workflow](t, top+"examples/workflows/ralph.yml")
	want := []string{"issue_comment", "issues", "pull_request_review", "workflow_dispatch"}
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(triggers(w.On)))); diff != "" {
		t.Errorf("triggers (-want +got):\n%s", diff)
	}
	route, work := w.Jobs["route"], w.Jobs["work"]
	if queue := work.Concurrency; queue.Group != "ralph/${{ needs.route.outputs.issue }}" || queue.Cancel != false ||
		queue.Queue != "max" || w.Concurrency.Group != "" || route.Concurrency.Group != "" {
		t.Errorf("the queue is %+v", queue)
	}
	if work.Needs != "route" || work.If != "needs.route.outputs.issue != ''" ||
		route.Outputs["issue"] != "${{ steps.route.outputs.issue }}" {
		t.Errorf("work needs %v, if %s, and is told %v", work.Needs, work.If, route.Outputs)
	}
	// A command on a later line, or nearly a command, is answered by how to write it.
	if !strings.Contains(route.If, "contains(github.event.comment.body, '/ralph')") {
		t.Errorf("route if %s", route.If)
	}
	if len(route.Steps) != 1 || route.Steps[0].ID != "route" ||
		!maps.Equal(route.Steps[0].With, map[string]any{"mode": modeRoute}) {
		t.Errorf("route does %+v", route.Steps)
	}
	if diff := cmp.Diff(map[string]any{"issues": "write", "pull-requests": "write"}, route.Permissions); diff != "" {
		t.Errorf("permissions of route (-want +got):\n%s", diff)
	}
}

// The audit finds each of the things it is for.
func TestAuditFinds(t *testing.T) {
	t.Parallel()
	m, _ := load[manifest](t, top+"action.yml")
	var w workflow
	const bad = `
on: {pull_request_target: {}, issues: {}}
permissions: write-all
jobs:
  a:
    steps:
      - run: echo ${{ github.event.issue.title }}
      - uses: actions/github-script@v7.0.1
        with: {script: "f('${{ github.head_ref }}')"}
      - uses: someone/thing@main
      - uses: actions/checkout@v4.2.2
      - uses: org/ralph-action@v1
        with: {anthropic_key: x}
  b:
    permissions: {actions: write}
    timeout-minutes: 5
`
	if err := yaml.Unmarshal([]byte(bad), &w); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a run of the action may be ended by the next one",
		"job a does not say its permissions",
		"job a gives the action anthropic_key, which it does not know",
		"job a has no timeout",
		"job a leaves a token in the checkout",
		"job a puts an expression into a script",
		"job a puts an expression into a shell line",
		"job b has actions: write",
		"pull_request_target runs with secrets on what strangers wrote",
		"someone/thing@main is not pinned",
		"the workflow has the permissions write-all",
	}
	if diff := cmp.Diff(want, audit(w, m)); diff != "" {
		t.Error(diff)
	}
}
