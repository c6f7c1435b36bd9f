package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// hugeLine is the length of the line that huge_line prints.
const hugeLine = 50 << 20

// exitTerminated is the exit code after SIGTERM.
const exitTerminated = 143

// RunScript is the scripted agent: it reads the prompt, finds its assignment,
// does what the script says in workdir and reports on stdout the way Claude Code
// does. It gives the exit code of the process; an error means that the agent
// itself broke (bad script, unreadable prompt, full disk), which is not part of
// any script. When ctx ends it stops, also out of "hang", with 143.
func RunScript(
	ctx context.Context, script []byte, prompt io.Reader, stdout io.Writer, workdir string,
) (exit int, err error) {
	s, err := ParseScript(script)
	if err != nil {
		return run.ExitUsage, err
	}
	text, err := io.ReadAll(prompt)
	if err != nil {
		return 1, fmt.Errorf("read prompt: %w", err)
	}
	if workdir, err = filepath.Abs(workdir); err != nil {
		return 1, fmt.Errorf("open work tree: %w", err)
	}
	root, err := os.OpenRoot(workdir)
	if err != nil {
		return 1, fmt.Errorf("open work tree: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()

	a := &actor{
		script: s, assignment: ReadAssignment(string(text)),
		root: root, workdir: workdir,
		out: speaker{w: stdout, model: cmp.Or(s.Model, "scripted"), cwd: workdir},
	}
	exit, err = a.act(ctx)
	if err = errors.Join(err, a.out.err); err != nil {
		return 1, err
	}
	return exit, nil
}

// actor is one start of the scripted agent.
type actor struct {
	script     Script
	assignment Assignment
	root       *os.Root
	workdir    string
	out        speaker
}

func (a *actor) act(ctx context.Context) (int, error) {
	step, found, err := a.step()
	if err != nil {
		return 1, err
	}
	if a.out.mute = step.Misbehave == misGarbage; a.out.mute {
		// What no parser should trip over.
		a.out.raw([]byte("npm warn something\r\n\x00\xff\xfe\x1b[2J{\"type\":\n{\"type\":\"result\",\"is_error\":false\n[]\nnull\n"))
	}
	a.out.start()
	switch step.Misbehave {
	case misHang:
		<-ctx.Done()
		return exitTerminated, nil
	case misIsError:
		a.out.refusal(400, "unknown", cmp.Or(step.Say, "API Error: 400 the script says so"))
		return 1, nil
	case misRateLimit:
		if step.RetryAfter > 0 {
			a.out.event(object{"type": "rate_limit_event", "rate_limit_info": object{
				"status": "rejected", "rateLimitType": "five_hour",
				"resetsAt": time.Now().Add(time.Duration(step.RetryAfter) * time.Second).Unix(),
			}})
		}
		a.out.refusal(429, "rate_limit", "You've hit your limit")
		return 1, nil
	case misHugeLine:
		a.out.huge()
	}
	if !found {
		a.out.result(true, 0, fmt.Sprintf("the script has nothing for task %q", a.assignment.Task), 0)
		return 1, nil
	}
	if step.Misbehave != misNothing {
		err = a.work(step)
	}
	if err == nil {
		err = a.misbehave(step)
	}
	switch {
	case err != nil, step.Misbehave == misCrash:
		return 1, err
	case ctx.Err() != nil:
		return exitTerminated, nil
	}
	say := a.last(step)
	a.out.assistant(a.out.model, "", object{"type": "text", "text": say})
	a.out.result(false, 0, say, step.CostUSD)
	return 0, nil
}

// last is the final message of a step.
func (a *actor) last(step Step) string {
	say := cmp.Or(step.Say, "Finished what was asked.")
	switch a.assignment.Mode { //nolint:exhaustive // any other mode is to work a task
	case modeVerify:
		return cmp.Or(step.Say, "RALPH_VERIFY: not agreed: the script does not say that it is done")
	case run.ModePlan, modeSplit, modeReview:
		return say
	}
	claim := step.Claim
	if claim == "" && (len(step.Files)+len(step.Append)+len(step.Delete) > 0 || step.Misbehave != "") {
		claim = "done"
	}
	if claim == "" || claim == "none" {
		return say
	}
	return say + "\n\nRALPH_RESULT: " + claim
}

// The modes of a prompt that is for more than planning and building.
const (
	modeSplit  run.Mode = "split"
	modeReview run.Mode = "review"
	modeVerify run.Mode = "verify"
)

// step chooses what to do. Where the plan is to be written or changed there is
// always something, if only to write nothing more.
func (a *actor) step() (Step, bool, error) {
	key, steps := a.steps()
	if len(steps) == 0 {
		mode := a.assignment.Mode
		return Step{}, mode == run.ModePlan || mode == modeSplit || mode == modeReview || mode == modeVerify, nil
	}
	n := max(a.assignment.Attempt, 1)
	if a.script.State != "" {
		var err error
		if n, err = a.count(key); err != nil {
			return Step{}, false, err
		}
	}
	return steps[min(n, len(steps))-1], true, nil
}

// steps finds the steps for the assignment: by id, then by the longest key that
// the title contains, then the default.
func (a *actor) steps() (key string, steps []Step) {
	id := a.assignment.Task
	switch a.assignment.Mode { //nolint:exhaustive // any other mode is to work a task
	case run.ModePlan:
		return "plan", a.script.Tasks["plan"]
	case modeReview:
		return "review", a.script.Review
	case modeSplit:
		return "split " + id, a.entry(a.script.Split)
	case modeVerify:
		return "verify " + id, a.entry(a.script.Verify)
	}
	if steps = a.entry(a.script.Tasks); steps == nil {
		steps = a.script.Default
	}
	return id, steps
}

// entry finds the entry of the assigned task.
func (a *actor) entry(entries map[string][]Step) []Step {
	if steps, ok := entries[a.assignment.Task]; ok && a.assignment.Task != "" {
		return steps
	}
	best := ""
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if len(key) > len(best) && strings.Contains(a.assignment.Title, key) {
			best = key
		}
	}
	return entries[best]
}

// box finds the line of a task: up to the box, and from behind it.
func box(id string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(\s*[-*+] \[)[ xX](\] (?:\*\*)?` + regexp.QuoteMeta(id) + `\b)`)
}

// count adds one to the starts for key and gives the new number.
func (a *actor) count(key string) (int, error) {
	file := a.script.State
	if !filepath.IsAbs(file) {
		file = filepath.Join(a.workdir, file)
	}
	counts := map[string]int{}
	b, err := os.ReadFile(file) //nolint:gosec // the script's own choice
	if err == nil {
		err = json.Unmarshal(b, &counts)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	counts[key]++
	if err == nil {
		b, err = json.Marshal(counts)
	}
	if err == nil {
		err = os.WriteFile(file, b, 0o600) //nolint:gosec // see above
	}
	return counts[key], wrap("count starts", err)
}

// work does the honest part of a step.
func (a *actor) work(step Step) error {
	for _, p := range slices.Sorted(maps.Keys(step.Files)) {
		a.out.tool("Write", object{"file_path": a.out.abs(p), "content": step.Files[p]})
		if err := a.write(p, []byte(step.Files[p])); err != nil {
			return err
		}
	}
	for _, p := range slices.Sorted(maps.Keys(step.Append)) {
		a.out.tool("Edit", object{"file_path": a.out.abs(p), "old_string": "", "new_string": step.Append[p]})
		old, err := a.root.ReadFile(filepath.FromSlash(p))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = a.write(p, append(old, step.Append[p]...))
		}
		if err != nil {
			return wrap("append to "+p, err)
		}
	}
	for _, p := range step.Delete {
		a.out.tool("Bash", object{"command": "rm -r -- " + p, "description": "Delete " + p})
		if err := a.root.RemoveAll(filepath.FromSlash(p)); err != nil {
			return wrap("delete "+p, err)
		}
	}
	for _, u := range step.Use {
		input := object{"command": u.Command}
		if u.File != "" {
			input = object{"file_path": a.out.abs(u.File), "command": u.Command}
		}
		a.out.tool(u.Tool, input)
	}
	tasks := step.AddTasks
	if a.assignment.Mode == run.ModePlan {
		tasks = slices.Concat(a.script.Plan, tasks)
	}
	if len(tasks) > 0 {
		if err := a.editProgress(func(b []byte) []byte { return addToSection(b, "Tasks", planText(tasks)) }); err != nil {
			return err
		}
	}
	if learn := strings.TrimSpace(step.Learn); learn != "" {
		if err := a.editProgress(func(b []byte) []byte { return addToSection(b, "Learnings", "- "+learn+"\n") }); err != nil {
			return err
		}
	}
	if step.Tick && a.assignment.Task != "" {
		return a.editProgress(func(b []byte) []byte { return box(a.assignment.Task).ReplaceAll(b, []byte("${1}x${2}")) })
	}
	return nil
}

// misbehave does the dishonest part of a step.
func (a *actor) misbehave(step Step) error {
	switch step.Misbehave {
	case misSymlinkProgress:
		p := filepath.FromSlash(a.assignment.ProgressFile)
		return wrap("link progress file", errors.Join(a.root.Remove(p), a.root.Symlink("/etc/passwd", p)))
	case misTickAll:
		return a.editProgress(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("- [ ]"), []byte("- [x]")) })
	case misDoneEarly:
		// Put together here so that no file of ours holds it on a line of its own.
		done := []byte("${1}RALPH" + "_DONE")
		return a.editProgress(func(b []byte) []byte {
			return regexp.MustCompile(`(?m)(^## Status\s+)\S+`).ReplaceAll(b, done)
		})
	case misEscapeWrite:
		a.out.tool("Bash", object{
			"command": "echo escaped > ../escaped-by-agent", "description": "Write beside the work tree",
		})
		// A sandbox that refuses this is right.
		_ = os.WriteFile(filepath.Join(a.workdir, "..", "escaped-by-agent"), []byte("escaped\n"), 0o600)
	}
	return nil
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (a *actor) write(p string, b []byte) error {
	p = filepath.FromSlash(p)
	if dir := filepath.Dir(p); dir != "." {
		if err := a.root.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("write %s: %w", p, err)
		}
	}
	// As an editor of the person would leave it: readable to all.
	return wrap("write "+p, a.root.WriteFile(p, b, 0o644))
}

func (a *actor) editProgress(edit func([]byte) []byte) error {
	if a.assignment.ProgressFile == "" {
		return errors.New("the prompt names no progress file")
	}
	b, err := a.root.ReadFile(filepath.FromSlash(a.assignment.ProgressFile))
	if err != nil {
		return wrap("read progress file", err)
	}
	a.out.tool("Edit", object{"file_path": a.out.abs(a.assignment.ProgressFile)})
	return a.write(a.assignment.ProgressFile, edit(b))
}

func planText(plan []PlannedTask) string {
	var b strings.Builder
	for _, t := range plan {
		fmt.Fprintf(&b, "- [ ] %s\n", t.Title)
		for _, accept := range t.Accept {
			fmt.Fprintf(&b, "  - Accept: %s\n", accept)
		}
	}
	return b.String()
}

// addToSection appends text to the section of that name, which is made at the end if missing.
func addToSection(b []byte, name, text string) []byte {
	at := regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(name) + `[ \t]*\r?$`).FindIndex(b)
	if at == nil {
		return slices.Concat(bytes.TrimRight(b, "\n"), []byte("\n\n## "+name+"\n"+text))
	}
	end := len(b)
	if next := regexp.MustCompile(`(?m)^## `).FindIndex(b[at[1]:]); next != nil {
		end = at[1] + next[0]
		text += "\n"
	}
	return slices.Concat(bytes.TrimRight(b[:end], " \t\r\n"), []byte("\n"+text), b[end:])
}

type object = map[string]any

// speaker prints events as Claude Code 2.1 does. The first error sticks.
type speaker struct {
	w     io.Writer
	model string
	cwd   string
	tools int
	turns int
	mute  bool // print no event any more
	err   error
}

func (s *speaker) raw(b []byte) {
	if s.err == nil {
		if _, err := s.w.Write(b); err != nil {
			s.err = fmt.Errorf("write event: %w", err)
		}
	}
}

func (s *speaker) event(e object) {
	if s.mute {
		return
	}
	e["session_id"] = "scripted"
	b, err := json.Marshal(e)
	if err != nil {
		s.err = errors.Join(s.err, fmt.Errorf("encode event: %w", err))
		return
	}
	s.raw(append(b, '\n'))
}

// abs is how the real CLI names a file of the work tree.
func (s *speaker) abs(p string) string { return path.Join(filepath.ToSlash(s.cwd), p) }

func (s *speaker) start() {
	s.event(object{
		"type": "system", "subtype": "init", "cwd": s.cwd, "model": s.model,
		"tools": []string{"Bash", "Edit", "Write"}, "mcp_servers": []string{},
		"permissionMode": "bypassPermissions", "apiKeySource": "none", "claude_code_version": "scripted",
	})
}

func (s *speaker) assistant(model, apiError string, block object) {
	s.turns++
	e := object{
		"type": "assistant", "parent_tool_use_id": nil,
		"message": object{
			"id": fmt.Sprintf("msg_%d", s.turns), "type": "message", "role": "assistant", "model": model,
			"content": []object{block}, "stop_reason": nil,
			"usage": object{"input_tokens": 100, "output_tokens": 1},
		},
	}
	if apiError != "" {
		e["error"] = apiError
	}
	s.event(e)
}

func (s *speaker) tool(name string, input object) {
	s.tools++
	id := fmt.Sprintf("toolu_%d", s.tools)
	s.assistant(s.model, "", object{"type": "tool_use", "id": id, "name": name, "input": input})
	s.event(object{"type": "user", "parent_tool_use_id": nil, "message": object{
		"role": "user", "content": []object{{"type": "tool_result", "tool_use_id": id, "content": "ok", "is_error": false}},
	}})
}

// refusal is what the CLI prints when the API refuses a request for good.
func (s *speaker) refusal(status int, name, text string) {
	s.assistant("<synthetic>", name, object{"type": "text", "text": text})
	s.result(true, status, text, 0)
}

func (s *speaker) result(isError bool, apiStatus int, text string, cost float64) {
	var status any
	if apiStatus != 0 {
		status = apiStatus
	}
	turns, used := max(s.turns, 1), max(s.turns, 1)
	if apiStatus != 0 { // refused: no model has read or said anything
		used = 0
	}
	s.event(object{
		"type": "result", "subtype": "success", "is_error": isError, "api_error_status": status,
		"num_turns": turns, "result": text, "total_cost_usd": cost, "permission_denials": []object{},
		"usage": object{
			"input_tokens": 100 * used, "output_tokens": 20 * used,
			"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0,
		},
	})
}

// huge prints one line of hugeLine bytes: valid JSON, but far too long.
func (s *speaker) huge() {
	s.raw([]byte(`{"type":"user","message":{"role":"user","content":"`))
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range hugeLine / len(block) {
		s.raw(block)
	}
	s.raw([]byte("\"}}\n"))
}
