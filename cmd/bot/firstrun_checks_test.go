//go:build claude

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/org/ralph-action/internal/agent/agenttest"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
)

// firstRun is a small project of somebody who has never run this program.
type firstRun struct {
	files map[string]string
	// write is the file that the model writes, and bodies what it writes at each attempt.
	write  string
	bodies []string
}

// model writes the bodies, one for each attempt.
func (p firstRun) model() agenttest.Script {
	var calls atomic.Int32
	return func(turn agenttest.Turn) agenttest.Reply {
		switch {
		case len(turn.Tools) == 0:
			return agenttest.Say("ok")
		case turn.Task == "":
			return agenttest.Done("Nothing is to be added.")
		case turn.Number == 0:
			body := p.bodies[min(int(calls.Add(1)), len(p.bodies))-1]
			return agenttest.Bash("cat >" + p.write + " <<'END'\n" + body + "END\n")
		default:
			return agenttest.Done("The function is there.")
		}
	}
}

// play runs `bot run plan.md` as a person types it, with the real Claude Code, on the
// default branch of the project.
func (p firstRun) play(t *testing.T, env ...string) (dir, stdout, stderr string, code int) {
	t.Helper()
	const key = "sk-ant-of-a-laptop"
	_, url := newModel(t, key, p.model())
	p.files["plan.md"] = "# Slugs\n\n- [ ] Make slugs lower case\n"
	dir = filepath.Join(shortTempDir(t), "repo")
	newRepo(t, dir, p.files)
	gitIn(t, dir, "switch", "-q", "main")
	out, code, told := botSays(t, "", dir, append([]string{"ANTHROPIC_API_KEY=" + key, "ANTHROPIC_BASE_URL=" + url}, env...),
		"plan.md", "--agent", "claude", "--agent-path", claudePath(t), "--model", modelName, "--task-attempts", "2")
	return dir, string(out), told, code
}

// says fails the test unless each pattern is on a line of the text.
func says(t *testing.T, what, text string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(`(?m)` + p).MatchString(text) {
			t.Errorf("%s lacks %q:\n%s", what, p, text)
		}
	}
}

// botPrints runs another command of the program in dir.
func botPrints(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), theProgram(t), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), envBe+"=bot", "RALPH_DATA_DIR="+filepath.Join(filepath.Dir(dir), "data"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("bot %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// goProject is one whose model gets it right at the second attempt.
func goProject() firstRun {
	const head = "package slug\n\n"
	const doc = "// Slug is s for an address.\n"
	return firstRun{
		files: map[string]string{
			"go.mod":  "module example.com/slug\n\ngo 1.24\n",
			"slug.go": head + doc + "func Slug(s string) string { return s }\n",
			"slug_test.go": head + "import \"testing\"\n\nfunc TestSlug(t *testing.T) {\n" +
				"\tif got := Slug(\"A\"); got != \"a\" && got != \"A\" {\n\t\tt.Errorf(\"Slug(%q) = %q\", \"A\", got)\n\t}\n}\n",
		},
		write: "slug.go",
		bodies: []string{
			head + doc + "func Slug(s string) string { return \"x\" + s }\n",
			head + "import \"strings\"\n\n" + doc + "func Slug(s string) string { return strings.ToLower(s) }\n",
		},
	}
}

// nodeProject is one whose model never gets it right.
func nodeProject() firstRun {
	return firstRun{
		files: map[string]string{
			"package.json": `{"name": "slug", "version": "1.0.0", "type": "module", "scripts": {"test": "node --test"}}` + "\n",
			"slug.js":      "export const slug = (s) => s;\n",
			"slug.test.js": "import test from 'node:test';\nimport assert from 'node:assert';\nimport { slug } from './slug.js';\n\n" +
				"test('slug', () => { assert.match(slug('A'), /^a$/i); });\n",
		},
		write:  "slug.js",
		bodies: []string{"export const slug = (s) => 'x' + s;\n", "export const slug = (s) => 'y' + s;\n"},
	}
}

// pythonProject is one that names pytest and does not bring it.
func pythonProject() firstRun {
	return firstRun{
		files: map[string]string{
			"pyproject.toml":     "[project]\nname = \"slug\"\nversion = \"1\"\n\n[tool.pytest.ini_options]\ntestpaths = [\"tests\"]\n",
			"slug.py":            "def slug(s):\n    return s\n",
			"tests/test_slug.py": "from slug import slug\n\n\ndef test_slug():\n    assert slug(\"A\").lower() == \"a\"\n",
		},
		write: "slug.py", bodies: []string{"def slug(s):\n    return s.lower()\n"},
	}
}

// TestFirstRunChecksGo: the first attempt fails its check. The person sees the assertion
// and its place, where the rest is, and what to do next; these commands work.
func TestFirstRunChecksGo(t *testing.T) {
	t.Parallel()
	dir, stdout, stderr, code := goProject().play(t)
	if code != run.ExitComplete {
		t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	says(t, "stderr", stderr,
		`^    ✗ The check "go test" \(go test -v \./\.\.\.\) failed with exit code 1\.$`,
		`^      │ +slug_test\.go:7: Slug\("A"\) = "xA"$`, `^      all of its output: bot transcript \S+ --gate 'go test'$`,
		`^      the refused work:  git show refs/ralph/\S+/T1$`, `^✓ All tasks are done and the checks pass \(2 iterations, `)
	says(t, "stdout", stdout, `git diff main\.\.\.ralph/plan$`, `git push -u origin ralph/plan$`,
		`gh pr create --base main --head ralph/plan --title .+ --fill$`)
	if diff := gitOut(t, dir, "diff", "main...ralph/plan", "--", "slug.go"); !strings.Contains(diff, "strings.ToLower") {
		t.Errorf("the command that is named shows %q", diff)
	}
	id := regexp.MustCompile(`bot transcript (\S+) --gate`).FindStringSubmatch(stderr)
	if id == nil {
		t.Fatal("no run is named")
	}
	says(t, "the transcript", botPrints(t, dir, "transcript", id[1], "--gate", "go test"),
		`^── iteration 1 · T1 · go test · failed with exit code 1 in `, `^    slug_test\.go:7: Slug\("A"\) = "xA"$`,
		`^── iteration 2 · T1 · go test · passed in `)
	says(t, "bot show", botPrints(t, dir, "show", id[1][:15]), `^\[x\] T1 Make slugs lower case$`)
}

// TestFirstRunChecksNode: a project of npm whose task stays undone ends with the very
// commands that show the work, apply it and go on.
func TestFirstRunChecksNode(t *testing.T) {
	t.Parallel()
	dir, stdout, stderr, code := nodeProject().play(t)
	if code != run.ExitBlocked {
		t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	says(t, "stderr", stderr, `^    ✗ The check "npm test" `, `^      │ .*slug`, `^■ Stopped: all remaining tasks are blocked `)
	says(t, "stdout", stdout, `^Nothing was committed\.$`, `git show refs/ralph/\S+/T1$`,
		`git cherry-pick -n refs/ralph/\S+/T1$`,
		`bot run plan\.md --agent claude `)
	ref := gitOut(t, dir, "for-each-ref", "--format=%(refname)", "refs/ralph")
	says(t, "git show", gitOut(t, dir, "show", ref), `^\+export const slug = \(s\) => '[xy]' \+ s;$`)
	gitOut(t, dir, "cherry-pick", "-n", ref)
	if status := gitOut(t, dir, "status", "--porcelain"); status != "M  slug.js" {
		t.Errorf("the checkout holds %q", status)
	}
}

// TestFirstRunChecksPython: pytest is not there. That is said, with what to do, and
// nobody reads that the checks pass or that they failed before.
func TestFirstRunChecksPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(shortTempDir(t), "bin")
	for dir, mode := range map[string]os.FileMode{filepath.Dir(bin): 0o755, bin: 0o755} {
		if err := os.MkdirAll(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	// Without what this machine has installed for itself.
	script := fmt.Sprintf("#!/bin/sh\nexec %s -S \"$@\"\n", python)
	if err := os.WriteFile(filepath.Join(bin, "python3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	_, stdout, stderr, code := pythonProject().play(t, "PATH="+bin+":"+os.Getenv("PATH"))
	if code != run.ExitComplete {
		t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	says(t, "stderr", stderr, `^    pytest could not run: No module named pytest\. To have it run, list what it needs in requirements\.txt`,
		`^✓ All tasks are done; nothing was checked: pytest could not run: No module named pytest`)
	for _, lie := range []string{"checks pass", "before this run"} {
		if strings.Contains(stderr+stdout, lie) {
			t.Errorf("%q is said:\n%s", lie, stderr)
		}
	}
}

// TestFirstRunOnATerminal: the same in three ecosystems as somebody who is not root sees
// it on a screen.
func TestFirstRunOnATerminal(t *testing.T) {
	t.Parallel()
	goTool, err := proc.Look("go")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		project firstRun
		code    int
		screen  []string
	}{
		"Go": {goProject(), run.ExitComplete, []string{
			`^      │ +slug_test\.go:7: Slug\("A"\) = "xA"$`, `^    ✓ T1 \(1 of 1, `, `^✓ All tasks are done and the checks pass`,
			`git diff main\.\.\.ralph/plan$`,
		}},
		"npm": {nodeProject(), run.ExitBlocked, []string{
			`^    ✗ The check "npm test" `, `^■ Stopped: all remaining tasks are blocked`, `^Nothing was committed\.$`,
			`git show refs/ralph/\S+/T1$`,
		}},
		"Python": {pythonProject(), run.ExitComplete, []string{
			`^    pytest could not run: `, `^✓ All tasks are done; nothing was checked: pytest could not run: `,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, _ := withClaude(t, "", tt.project.model())
			gitIn(t, n.project, "switch", "-q", "main")
			if _, own := tt.project.files["go.mod"]; !own {
				gitIn(t, n.project, "rm", "-q", "go.mod")
			}
			for file, content := range tt.project.files {
				n.write("src/project/"+file, content, 0o644)
				gitIn(t, n.project, "add", file)
			}
			gitIn(t, n.project, "commit", "-q", "-m", "Slugs")
			cmd := n.command(t.Context(), "run", "plan.md", "--model", modelName, "--task-attempts", "2")
			for i, kv := range cmd.Env {
				if strings.HasPrefix(kv, "PATH=") {
					cmd.Env[i] += ":" + filepath.Dir(goTool)
				}
			}
			term := onTerminal(t, 150, 70, cmd)
			code, screen := term.ended()
			if code != tt.code {
				t.Errorf("exit code %d", code)
			}
			says(t, "the screen", strings.Join(screen, "\n"), tt.screen...)
		})
	}
}
