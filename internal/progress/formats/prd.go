package formats

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// prd is snarktank/ralph's prd.json. A story passes or not; why it is blocked
// or skipped is the last line of its notes. encoding/json reads it; where things stand,
// gjson tells.
type prd struct {
	Project     string  `json:"project"`
	Branch      string  `json:"branchName"`
	Description string  `json:"description"`
	Stories     []story `json:"userStories"`

	src []byte
}

// story is a user story. They are in the order of their priorities.
type story struct {
	ID          string   `json:"id"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Accept      []string `json:"acceptanceCriteria"`
	Priority    *float64 `json:"priority"`
	Passes      bool     `json:"passes"`
	Notes       string   `json:"notes"`

	object gjson.Result
	about  []string // what is said of it that is no criterion
}

const jsonHint = "fix it; a comma too many or too few is the usual cause"

func (f *File) readPRD(src []byte) error {
	p := &prd{src: bytes.Clone(src)}
	body := bytes.TrimPrefix(p.src, []byte(bom))
	fail := func(at int, message, hint string) error {
		return failAt(f.name, src, at+len(src)-len(body), message, hint)
	}
	if err := json.Unmarshal(body, p); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fail(int(wrong.Offset)-1, fmt.Sprintf("%s must be %s, not %s",
				cmp.Or(wrong.Field, "a PRD"), jsonKind(wrong.Type), wrong.Value), "see the format of prd.json")
		}
		at := len(body)
		if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = int(wrong.Offset) - 1
		}
		return fail(at, "this is not JSON: "+err.Error(), jsonHint)
	}
	root := gjson.ParseBytes(body)
	list, twice := member(root, "userStories")
	if list == nil || p.Stories == nil {
		return fail(root.Index, `there is no "userStories"`,
			`name the stories: "userStories": [{"id": "US-001", "title": "…", "passes": false}]`)
	}
	view := Plan{Title: oneLine(p.Project), Branch: p.Branch}
	for i, object := range list.value.Array() {
		s := &p.Stories[i]
		s.object = object
		for _, key := range []string{"id", "title", "description", "acceptanceCriteria", "priority", "passes", "notes"} {
			_, again := member(object, key)
			twice = twice || again
		}
		if oneLine(s.Title) == "" {
			return fail(object.Index, "the story has no title", `add "title": "…"`)
		}
	}
	if twice {
		return fail(root.Index, "a key stands twice in one object", "remove one of the two")
	}
	slices.SortStableFunc(p.Stories, func(a, b story) int { return cmp.Compare(a.order(), b.order()) })
	for i := range p.Stories {
		view.Tasks = append(view.Tasks, p.Stories[i].task())
	}
	view.MarkedDone = view.Done()
	f.prd, f.view = p, view
	return nil
}

// jsonKind says what is to be written, for a person.
func jsonKind(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // these are the kinds of a prd
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct:
		return "an object"
	case reflect.Float64:
		return "a number"
	}
	return "a string"
}

// place is a member of an object, whose key and value know where they stand.
type place struct{ key, value gjson.Result }

// member finds a member by its name, as encoding/json does; nil for none.
func member(object gjson.Result, name string) (found *place, twice bool) {
	object.ForEach(func(key, value gjson.Result) bool {
		if object.IsObject() && strings.EqualFold(key.Str, name) {
			twice = found != nil
			found = &place{key, value}
		}
		return !twice
	})
	return found, twice
}

func (s *story) order() float64 {
	if s.Priority == nil {
		return math.Inf(1)
	}
	return *s.Priority
}

// task is the story as a task.
func (s *story) task() Task {
	t := Task{Task: run.Task{ID: oneLine(s.ID), Title: oneLine(s.Title), Status: run.TaskOpen}}
	for _, a := range s.Accept {
		if a = oneLine(a); a != "" {
			t.Accept = append(t.Accept, a)
		}
	}
	if s.Priority != nil {
		t.Priority = int(max(1, min(math.Ceil(*s.Priority), 1e6)))
	}
	note, status, reason := splitMark(s.Notes)
	if status != "" {
		t.Status, t.Reason = status, oneLine(reason)
	}
	s.about = lines(s.Description)
	for _, l := range lines(note) {
		if !progress.AddLine(&t.Task, l) {
			s.about = append(s.about, l)
		}
	}
	if s.Passes {
		t.Status, t.Reason = run.TaskDone, ""
	}
	return t
}

// text is the PRD in words: nothing in it says how far the work has come.
func (p *prd) text(view Plan) string {
	var b strings.Builder
	b.WriteString("# " + view.Title + "\n")
	for _, l := range lines(p.Description) {
		b.WriteString("\n" + l + "\n")
	}
	for i, t := range view.Tasks {
		b.WriteString("\n## " + strings.TrimSpace(t.ID+" "+t.Title) + "\n\n")
		for _, l := range p.Stories[i].about {
			b.WriteString("- " + l + "\n")
		}
		b.WriteString(progress.Below(t.Task))
	}
	return b.String()
}

// splitMark takes "blocked: reason" or "skipped: reason" off the last line of
// notes.
func splitMark(notes string) (rest string, status run.TaskStatus, reason string) {
	at := strings.LastIndexByte(notes, '\n')
	for _, s := range [...]run.TaskStatus{run.TaskBlocked, run.TaskSkipped} {
		if r, ok := strings.CutPrefix(notes[at+1:], string(s)+": "); ok {
			return notes[:max(at, 0)], s, r
		}
	}
	return notes, "", ""
}

// apply changes what the stories say of themselves.
func (p *prd) apply(changes []progress.Mark, tasks []Task) ([]byte, error) {
	var patches []progress.Patch
	for _, c := range changes {
		s, done := &p.Stories[c.Task], tasks[c.Task].Status == run.TaskDone
		switch {
		case c.Status == run.TaskBlocked || c.Status == run.TaskSkipped:
			notes, _, _ := splitMark(s.Notes)
			if notes != "" {
				notes += "\n"
			}
			notes += string(c.Status) + ": " + cmp.Or(oneLine(c.Reason), "no reason given")
			patches = append(patches, p.set(s.object, "notes", encodeString(notes)))
		case done != (c.Status == run.TaskDone):
			patches = append(patches, p.set(s.object, "passes", strconv.FormatBool(!done)))
		}
	}
	return progress.Splice(p.src, patches)
}

// set replaces the value of a member, or puts it behind the last one, in the way the object
// is written, which has a title.
func (p *prd) set(object gjson.Result, key, text string) progress.Patch {
	skip := 0
	if bytes.HasPrefix(p.src, []byte(bom)) {
		skip = len(bom)
	}
	if old, _ := member(object, key); old != nil {
		at := old.value.Index + skip
		return progress.Patch{Start: at, Stop: at + len(old.value.Raw), Text: text}
	}
	at := object.Index + skip + 1 // what stands before a key: behind the brace, then behind each comma
	var space, colon string
	object.ForEach(func(k, v gjson.Result) bool {
		between := string(p.src[at : k.Index+skip])
		space = between[strings.IndexByte(between, ',')+1:]
		colon = string(p.src[k.Index+skip+len(k.Raw) : v.Index+skip])
		at = v.Index + skip + len(v.Raw)
		return true
	})
	return progress.Patch{Start: at, Stop: at, Text: "," + space + `"` + key + `"` + colon + text}
}

// encodeString writes s as a JSON string, without the escapes HTML would want.
func encodeString(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string into a buffer: neither can fail
	return strings.TrimSuffix(b.String(), "\n")
}
