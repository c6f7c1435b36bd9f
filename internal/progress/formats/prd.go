package formats

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// prd is snarktank/ralph's prd.json. A story passes or not; why it is blocked
// or skipped is the last line of its notes.
type prd struct {
	name    string
	src     []byte
	stories []story // in the order of their priorities
	view    Plan
	about   string // the description of the whole
}

// story is where the parts of a user story stand.
type story struct {
	object        value
	passes, notes *value // nil where the story has none
	order         float64
	about         []string // what is said of it that is no criterion
}

// Keys of prd.json that the view knows.
var (
	prdKeys   = []string{"project", "branchName", "description", "userStories"}
	storyKeys = []string{"id", "title", "description", "acceptanceCriteria", "priority", "passes", "notes"}
)

func parsePRD(name string, src []byte) (*prd, error) {
	if err := admit(name, src); err != nil {
		return nil, err
	}
	p := &prd{name: name, src: bytes.Clone(src)}
	if err := p.index(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *prd) bytes() []byte { return p.src }

func (p *prd) plan() Plan {
	v := p.view
	v.Tasks = slices.Clone(v.Tasks)
	return v
}

// text is the PRD in words: nothing in it says how far the work has come.
func (p *prd) text() string {
	var b strings.Builder
	b.WriteString("# " + p.view.Title + "\n")
	for _, l := range lines(p.about) {
		b.WriteString("\n" + l + "\n")
	}
	for i, t := range p.view.Tasks {
		b.WriteString("\n## " + strings.TrimSpace(t.ID+" "+t.Title) + "\n\n")
		for _, l := range p.stories[i].about {
			b.WriteString("- " + l + "\n")
		}
		b.WriteString(progress.Below(t.Task))
	}
	return b.String()
}

// index reads p.src anew.
func (p *prd) index() error {
	root, err := parseJSON(p.name, p.src)
	if err != nil {
		return err
	}
	if !root.IsObject() {
		return p.fail(root.start, "a PRD is a JSON object, and this is "+root.kind(),
			`begin the file with { and name the stories in "userStories"`)
	}
	if err := p.noTwins(root, prdKeys); err != nil {
		return err
	}
	var v Plan
	for key, into := range map[string]*string{"project": &v.Title, "branchName": &v.Branch} {
		if *into, err = p.member(root, key); err != nil {
			return err
		}
		*into = oneLine(*into)
	}
	if p.about, err = p.member(root, "description"); err != nil {
		return err
	}
	list := root.get("userStories")
	if list == nil {
		return p.fail(root.start, `there is no "userStories"`,
			`name the stories: "userStories": [{"id": "US-001", "title": "…", "passes": false}]`)
	}
	if !list.IsArray() {
		return p.fail(list.start, `"userStories" must be a list, not `+list.kind(),
			"put the stories in square brackets")
	}
	items := list.items()
	stories := make([]story, len(items))
	tasks := make([]Task, len(items))
	order := make([]int, len(items))
	for i, item := range items {
		order[i] = i
		if stories[i], tasks[i], err = p.story(item); err != nil {
			return err
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := stories[a].order, stories[b].order; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	p.stories, v.Tasks = nil, nil
	for _, i := range order {
		p.stories = append(p.stories, stories[i])
		v.Tasks = append(v.Tasks, tasks[i])
	}
	v.MarkedDone = v.Done()
	p.view = v
	return nil
}

// story reads one user story.
func (p *prd) story(item value) (s story, t Task, err error) {
	if !item.IsObject() {
		return s, t, p.fail(item.start, "a story must be an object, not "+item.kind(),
			`write {"id": "US-001", "title": "…", "passes": false}`)
	}
	if err := p.noTwins(item, storyKeys); err != nil {
		return s, t, err
	}
	s.object, s.order = item, math.Inf(1)
	t.Status = run.TaskOpen
	for key, into := range map[string]*string{"id": &t.ID, "title": &t.Title} {
		if *into, err = p.member(item, key); err != nil {
			return s, t, err
		}
		*into = oneLine(*into)
	}
	if t.Title == "" {
		return s, t, p.fail(item.start, "the story has no title", `add "title": "…"`)
	}
	about, err := p.member(item, "description")
	if err != nil {
		return s, t, err
	}
	s.about = lines(about)
	if t.Accept, err = p.texts(item, "acceptanceCriteria"); err != nil {
		return s, t, err
	}
	if n := item.get("priority"); !n.missing() {
		if n.Type != gjson.Number {
			return s, t, p.fail(n.start, `"priority" must be a number, not `+n.kind(), "write 1 for what comes first")
		}
		// A number too large for a float is infinite, and so comes last.
		s.order, _ = strconv.ParseFloat(n.Raw, 64)
		t.Priority = int(max(1, min(math.Ceil(s.order), 1e6)))
	}
	notes, err := p.member(item, "notes")
	if err != nil {
		return s, t, err
	}
	s.notes, s.passes = item.get("notes"), item.get("passes")
	note, status, reason := splitMark(notes)
	if status != "" {
		t.Status, t.Reason = status, oneLine(reason)
	}
	for _, l := range lines(note) {
		if !progress.AddLine(&t.Task, l) {
			s.about = append(s.about, l)
		}
	}
	if s.passes.missing() {
		return s, t, nil
	}
	if !s.passes.IsBool() {
		return s, t, p.fail(s.passes.start, `"passes" must be true or false, not `+s.passes.kind(),
			"write true or false, without quotes")
	}
	if s.passes.Bool() {
		t.Status, t.Reason = run.TaskDone, ""
	}
	return s, t, nil
}

// noTwins refuses a key that stands twice, where it could not be said which
// one counts.
func (p *prd) noTwins(object value, keys []string) error {
	seen := make(map[string]bool, len(keys))
	for _, m := range object.members() {
		if seen[m.name] {
			return p.fail(m.key.start, fmt.Sprintf("%q stands twice in one object", m.name), "remove one of the two")
		}
		seen[m.name] = slices.Contains(keys, m.name)
	}
	return nil
}

// member reads one that is a string; one that is missing or null is "".
func (p *prd) member(object value, key string) (string, error) {
	v := object.get(key)
	if v.missing() {
		return "", nil
	}
	if v.Type != gjson.String {
		return "", p.fail(v.start, fmt.Sprintf("%q must be a string, not %s", key, v.kind()), "put it in quotes")
	}
	return v.Str, nil
}

// texts reads a member that is a list of strings.
func (p *prd) texts(object value, key string) ([]string, error) {
	v := object.get(key)
	if v.missing() {
		return nil, nil
	}
	if !v.IsArray() {
		return nil, p.fail(v.start, fmt.Sprintf("%q must be a list, not %s", key, v.kind()),
			"put the strings in square brackets")
	}
	var out []string
	for _, item := range v.items() {
		if item.Type != gjson.String {
			return nil, p.fail(item.start, fmt.Sprintf("%q must hold strings, not %s", key, item.kind()),
				"put it in quotes")
		}
		if s := oneLine(item.Str); s != "" {
			out = append(out, s)
		}
	}
	return out, nil
}

func (p *prd) fail(at int, message, hint string) error {
	return failAt(p.name, p.src, at, message, hint)
}

// splitMark takes "blocked: reason" or "skipped: reason" off the last line of
// notes.
func splitMark(notes string) (rest string, status run.TaskStatus, reason string) {
	rest, last := "", notes
	if i := strings.LastIndexByte(notes, '\n'); i >= 0 {
		rest, last = notes[:i], notes[i+1:]
	}
	for _, s := range [...]run.TaskStatus{run.TaskBlocked, run.TaskSkipped} {
		if r, ok := strings.CutPrefix(last, string(s)+": "); ok {
			return rest, s, r
		}
	}
	return notes, "", ""
}

// apply changes what the stories say of themselves.
func (p *prd) apply(changes []progress.Mark) error {
	var patches []progress.Patch
	for _, c := range changes {
		more, err := p.edits(c)
		if err != nil {
			return err
		}
		patches = append(patches, more...)
	}
	src, err := progress.Splice(p.src, patches)
	if err != nil {
		return err
	}
	n, err := parsePRD(p.name, src)
	if err != nil {
		return err
	}
	*p = *n
	return nil
}

// set is the replacement of a member's value, or of nothing by a new member
// behind the last one, in the way the object is written.
func set(src []byte, object value, old *value, key, text string) progress.Patch {
	if old != nil {
		return progress.Patch{Start: old.start, Stop: old.end, Text: text}
	}
	at := object.start + 1
	members := object.members()
	if len(members) == 0 {
		return progress.Patch{Start: at, Stop: at, Text: `"` + key + `": ` + text}
	}
	last := members[len(members)-1]
	space := src[at:last.key.start]
	if n := len(members); n > 1 {
		at = members[n-2].value.end
		_, space, _ = bytes.Cut(src[at:last.key.start], []byte(","))
	}
	colon := string(src[last.key.end:last.value.start])
	end := last.value.end
	return progress.Patch{Start: end, Stop: end, Text: "," + string(space) + `"` + key + `"` + colon + text}
}

// edits are the replacements that make one change; none where nothing is to be changed.
func (p *prd) edits(c progress.Mark) ([]progress.Patch, error) {
	s, t := p.stories[c.Task], p.view.Tasks[c.Task]
	done := t.Status == run.TaskDone
	switch c.Status {
	case run.TaskBlocked, run.TaskSkipped:
		if done {
			return nil, errDone(t)
		}
		notes := ""
		if s.notes != nil {
			notes, _, _ = splitMark(s.notes.Str)
		}
		if notes != "" {
			notes += "\n"
		}
		reason := cmp.Or(oneLine(c.Reason), "no reason given")
		return []progress.Patch{
			set(p.src, s.object, s.notes, "notes", encodeString(notes+string(c.Status)+": "+reason)),
		}, nil
	case run.TaskOpen, run.TaskInProgress, run.TaskInReview, run.TaskDone:
		if want := c.Status == run.TaskDone; want != done {
			return []progress.Patch{set(p.src, s.object, s.passes, "passes", strconv.FormatBool(want))}, nil
		}
	}
	return nil, nil
}
