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
	switch step.Misbehave {
	case misHang:
		a.out.start()
		<-ctx.Done()
		return exitTerminated, nil
	case misIsError, misRateLimit:
		return a.refused(step), nil
	case misHugeLine:
		a.out.start()
		a.out.huge()
	case misGarbage:
		a.out.garbage()
		a.out.mute = true
	default:
		a.out.start()
	}
	if !found {
		a.out.result(true, 0, fmt.Sprintf("the script has nothing for task %q", a.assignment.Task), 0)
		return 1, nil
	}

	if step.Misbehave != misNothing {
		if err := a.work(ctx, step); err != nil {
			return 1, err
		}
	}
	if err := a.misbehave(step); err != nil {
		return 1, err
	}
	if ctx.Err() != nil {
		return exitTerminated, nil
	}
	switch step.Misbehave {
	case misCrash:
		return cmp.Or(step.Exit, 1), nil
	case misGarbage:
		return step.Exit, nil
	}
	say := a.last(step)
	a.out.text(say)
	a.out.result(false, 0, say, step.CostUSD)
	return step.Exit, nil
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
func (a *actor) steps() (string, []Step) {
	id := a.assignment.Task
	switch a.assignment.Mode { //nolint:exhaustive // any other mode is to work a task
	case run.ModePlan:
		return "plan", a.script.Tasks["plan"]
	case modeReview:
		return "review", a.script.Review
	case modeSplit:
		steps, _ := a.lookUp(a.script.Split)
		return "split " + id, steps
	case modeVerify:
		steps, _ := a.lookUp(a.script.Verify)
		return "verify " + id, steps
	}
	if steps, ok := a.lookUp(a.script.Tasks); ok {
		return id, steps
	}
	return id, a.script.Default
}

// lookUp finds the entry of the assigned task: by its id, then by the longest
// key that its title contains.
func (a *actor) lookUp(entries map[string][]Step) ([]Step, bool) {
	id := a.assignment.Task
	if steps, ok := entries[id]; ok && id != "" {
		return steps, true
	}
	title := cmp.Or(a.assignment.Title, a.titleFromProgress(id))
	keys := slices.SortedFunc(maps.Keys(entries), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(y), len(x)), strings.Compare(x, y))
	})
	for _, k := range keys {
		if strings.Contains(title, k) {
			return entries[k], true
		}
	}
	return nil, false
}

// taskLine finds the line of a task: up to the box, up to the id, the title.
func taskLine(id string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(\s*[-*+] \[)[ xX](\] (?:\*\*)?` + regexp.QuoteMeta(id) + `\b)([^\n]*)$`)
}

func (a *actor) titleFromProgress(id string) string {
	if id == "" {
		return ""
	}
	b, err := a.readProgress()
	if err != nil {
		return ""
	}
	m := taskLine(id).FindSubmatch(b)
	if m == nil {
		return ""
	}
	return string(m[3])
}

// count adds one to the starts for key and gives the new number.
func (a *actor) count(key string) (int, error) {
	file := a.script.State
	if !filepath.IsAbs(file) {
		file = filepath.Join(a.workdir, file)
	}
	counts := map[string]int{}
	b, err := os.ReadFile(file) //nolint:gosec // the script's own choice
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return 0, fmt.Errorf("read script state: %w", err)
	default:
		if err := json.Unmarshal(b, &counts); err != nil {
			return 0, fmt.Errorf("read script state: %w", err)
		}
	}
	counts[key]++
	b, err = json.Marshal(counts)
	if err != nil {
		return 0, fmt.Errorf("write script state: %w", err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return 0, fmt.Errorf("write script state: %w", err)
	}
	return counts[key], nil
}

// refused acts out an API that does not answer.
func (a *actor) refused(step Step) int {
	a.out.start()
	if step.Misbehave == misIsError {
		a.out.refusal(400, "unknown", cmp.Or(step.Say, "API Error: 400 the script says so"))
		return cmp.Or(step.Exit, 1)
	}
	if step.RetryAfter > 0 {
		a.out.event(object{"type": "rate_limit_event", "rate_limit_info": object{
			"status": "rejected", "rateLimitType": "five_hour",
			"resetsAt": time.Now().Add(time.Duration(step.RetryAfter) * time.Second).Unix(),
		}})
	}
	a.out.refusal(429, "rate_limit", "You've hit your limit")
	return cmp.Or(step.Exit, 1)
}

// work does the honest part of a step.
func (a *actor) work(ctx context.Context, step Step) error {
	for _, p := range sortedKeys(step.Files) {
		if ctx.Err() != nil {
			return nil
		}
		a.out.tool("Write", object{"file_path": a.out.abs(p), "content": step.Files[p]})
		if err := a.write(p, []byte(step.Files[p])); err != nil {
			return err
		}
	}
	for _, p := range sortedKeys(step.Append) {
		a.out.tool("Edit", object{"file_path": a.out.abs(p), "old_string": "", "new_string": step.Append[p]})
		old, err := a.root.ReadFile(filepath.FromSlash(p))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("append to %s: %w", p, err)
		}
		if err := a.write(p, append(old, step.Append[p]...)); err != nil {
			return err
		}
	}
	for _, p := range step.Delete {
		a.out.tool("Bash", object{"command": "rm -r -- " + p, "description": "Delete " + p})
		if err := a.root.RemoveAll(filepath.FromSlash(p)); err != nil {
			return fmt.Errorf("delete %s: %w", p, err)
		}
	}
	for _, u := range step.Use {
		for range max(u.Times, 1) {
			a.out.use(u)
		}
	}
	tasks := step.AddTasks
	if a.assignment.Mode == run.ModePlan {
		tasks = slices.Concat(a.script.Plan, tasks)
	}
	notes := []struct{ section, text string }{
		{"Tasks", planText(tasks)}, {"Codebase Patterns", bullet(step.Pattern)}, {"Learnings", bullet(step.Learn)},
	}
	for _, n := range notes {
		if n.text == "" {
			continue
		}
		if err := a.editProgress(func(b []byte) []byte { return addToSection(b, n.section, n.text) }); err != nil {
			return err
		}
	}
	if step.Tick && a.assignment.Task != "" {
		return a.editProgress(func(b []byte) []byte {
			return taskLine(a.assignment.Task).ReplaceAll(b, []byte("${1}x${2}${3}"))
		})
	}
	return nil
}

// misbehave does the dishonest part of a step.
func (a *actor) misbehave(step Step) error {
	switch step.Misbehave {
	case misSymlinkProgress:
		if _, err := a.readProgress(); err != nil {
			return err
		}
		p := filepath.FromSlash(a.assignment.ProgressFile)
		return wrap("link progress file", errors.Join(a.root.Remove(p), a.root.Symlink("/etc/passwd", p)))
	case misTickAll:
		return a.editProgress(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("- [ ]"), []byte("- [x]")) })
	case misDoneEarly:
		return a.editProgress(func(b []byte) []byte { return setStatus(b, doneMarker()) })
	case misEscapeWrite:
		a.out.tool("Bash", object{
			"command": "echo escaped > ../escaped-by-agent", "description": "Write beside the work tree",
		})
		// A sandbox that refuses this is right.
		_ = os.WriteFile(filepath.Join(a.workdir, "..", "escaped-by-agent"), []byte("escaped\n"), 0o600)
		return nil
	}
	return nil
}

// doneMarker is put together here so that no file of ours holds it on a line of
// its own.
func doneMarker() string { return "RALPH" + "_DONE" }

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

func (a *actor) readProgress() ([]byte, error) {
	if a.assignment.ProgressFile == "" {
		return nil, errors.New("the prompt names no progress file")
	}
	b, err := a.root.ReadFile(filepath.FromSlash(a.assignment.ProgressFile))
	return b, wrap("read progress file", err)
}

func (a *actor) editProgress(edit func([]byte) []byte) error {
	b, err := a.readProgress()
	if err != nil {
		return err
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
		if len(t.Depends) > 0 {
			fmt.Fprintf(&b, "  - Depends on: %s\n", strings.Join(t.Depends, ", "))
		}
	}
	return b.String()
}

// bullet is text as the entry of a list, "" for none.
func bullet(text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return "- " + text + "\n"
}

// section finds the body of "## name": from the line after the heading to the
// next heading of the same level, or the end.
func section(b []byte, name string) (start, end int, ok bool) {
	at := regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(name) + `[ \t]*\r?$`).FindIndex(b)
	if at == nil {
		return 0, 0, false
	}
	start = min(at[1]+1, len(b))
	if next := regexp.MustCompile(`(?m)^## `).FindIndex(b[start:]); next != nil {
		return start, start + next[0], true
	}
	return start, len(b), true
}

// addToSection appends text to the section, which is made at the end if missing.
func addToSection(b []byte, name, text string) []byte {
	start, end, ok := section(b, name)
	if !ok {
		return slices.Concat(bytes.TrimRight(b, "\n"), []byte("\n\n## "+name+"\n"), []byte(text))
	}
	body := bytes.TrimRight(b[start:end], " \t\r\n")
	if len(body) > 0 {
		body = append(slices.Clone(body), '\n')
	}
	head := b[:start]
	if !bytes.HasSuffix(head, []byte("\n")) {
		head = append(slices.Clone(head), '\n')
	}
	rest := b[end:]
	if len(rest) > 0 {
		text += "\n"
	}
	return slices.Concat(head, body, []byte(text), rest)
}

func setStatus(b []byte, status string) []byte {
	start, end, ok := section(b, "Status")
	if !ok {
		return addToSection(b, "Status", status+"\n")
	}
	return slices.Concat(b[:start], []byte(status+"\n\n"), b[end:])
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

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

func (s *speaker) print(b []byte) {
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
	s.print(append(b, '\n'))
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

func (s *speaker) text(text string) {
	s.assistant(s.model, "", object{"type": "text", "text": text})
}

// use shows a tool call.
func (s *speaker) use(u ToolUse) {
	input := object{}
	if u.File != "" {
		input["file_path"] = s.abs(u.File)
	}
	if u.Command != "" {
		input["command"] = u.Command
	}
	s.tool(u.Tool, input)
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
	s.print([]byte(`{"type":"user","message":{"role":"user","content":"`))
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range hugeLine / len(block) {
		s.print(block)
	}
	s.print([]byte("\"}}\n"))
}

// garbage prints what no parser should trip over.
func (s *speaker) garbage() {
	s.print([]byte("npm warn something\r\n\x00\xff\xfe\x1b[2J{\"type\":\n{\"type\":\"result\",\"is_error\":false\n[]\nnull\n"))
}
