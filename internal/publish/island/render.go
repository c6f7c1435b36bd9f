package island

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// The marks behind a task's text. No text of an agent comes out as one of them:
// Speak escapes an underscore at the edge of a word.
const (
	markInProgress = "_in progress_"
	markInReview   = "_in review_"
	markBlocked    = "_blocked_"
	markSkipped    = "_skipped_"
)

// cutMark ends a text that was shortened. A text that ends with an ellipsis of
// its own has no invisible character behind it.
const cutMark = ellipsis + zeroWidth

// noGroup heads tasks without a group that follow some with one. A group's own
// name has its underscores escaped.
const noGroup = "_Other_"

// Limits of what is shown at the most, in bytes as written.
const (
	maxGroup     = 500
	maxCriterion = 1000
	maxCriteria  = 20 // of one task
	maxReason    = 300
	maxGates     = 30
	maxFindings  = 20
	maxMerged    = 20
	maxNote      = 1000
	maxQuestions = 10
	maxAccount   = 5000
)

// detail says how much a rendering shows: so many calls and rows of the Iteration
// Log; so many bytes of each of the plan's sections and of those of what was learnt,
// of what failed checks said and of the account of what was given up; so many
// commits, titles of so many bytes.
type detail struct {
	calls, log, plan, learnings, output, account, said, commits, title int
	criteria                                                           criteria
}

// criteria says whose acceptance criteria are shown.
type criteria int

const (
	criteriaOfNone criteria = iota
	criteriaOfOpen
	criteriaOfAll
)

var richest = detail{
	calls: 50, log: 100, plan: 6000, learnings: 6000, output: 1500, account: maxAccount, said: 100, commits: 300,
	title: 2000, criteria: criteriaOfAll,
}

// shortenings are the steps from the richest rendering on, each on top of those
// before.
var shortenings = [...]func(*detail){
	func(d *detail) { d.calls = 5 },
	func(d *detail) { d.calls = 0 },
	func(d *detail) { d.log = 20 },
	func(d *detail) { d.log = 0 },
	func(d *detail) { d.plan = 1500 },
	func(d *detail) { d.plan = 0 },
	func(d *detail) { d.learnings = 1500 },
	func(d *detail) { d.learnings = 0 },
	func(d *detail) { d.output = 300 },
	func(d *detail) { d.output = 0 },
	func(d *detail) { d.account = 1000 },
	func(d *detail) { d.account = 0 },
	func(d *detail) { d.said = 30 },
	func(d *detail) { d.said = 0 },
	func(d *detail) { d.commits = 50 },
	func(d *detail) { d.commits = 10 },
	func(d *detail) { d.commits = 0 },
	func(d *detail) { d.criteria = criteriaOfOpen },
	func(d *detail) { d.criteria = criteriaOfNone },
	func(d *detail) { d.title = 200 },
	func(d *detail) { d.title = 80 },
}

// Render renders the managed island: the state of the run as a person reads it.
// Equal views give equal texts of at most MaxSize bytes, and so of at most as
// many UTF-16 units. Where that is too little, these go, in this order and no
// further than needed:
//
//  1. what calls used and reached, to the 5 newest, then all
//  2. the Iteration Log, to the 20 newest rows, then all
//  3. the analysis and the testing strategy, to 1,500 bytes each, then all
//  4. codebase patterns and learnings, to 1,500 bytes each, then all
//  5. what failed checks said, to 300 bytes each, then all
//  6. the account of what was given up, to 1,000 bytes, then all
//  7. what was said in review, to the 30 newest, then all but the last of lines
//     and of the whole: a job knows by it what was heard already
//  8. links to commits, to the 50 newest, then to 10, then all
//  9. acceptance criteria and dependencies, first those of tasks that are done
//     or skipped
//  10. titles, to 200 bytes each, then to 80
//  11. tasks far from the action: done ones first, the oldest of them first, then
//     skipped, blocked and open ones, each from the end of the plan; what is in
//     progress goes last
//  12. the list of checks, and the number of tasks that are not shown
//
// The headline, how to go on, and the ids and markers of the tasks that are
// shown are never shortened. A text that was cut
// ends with an ellipsis and an invisible mark, by which Parse knows it.
func Render(v View) string { return newRenderer(v).within(MaxSize) }

// MaxSummary bounds a Summary. GitHub refuses one of a check run that is longer
// than 65,535 bytes.
const MaxSummary = 16 << 10

// Summary is what Render shows, cut to MaxSummary in the same order, for a
// place that is no description: without the markers, and closing no issue.
func Summary(v View) string {
	v.Closes = false
	content, _ := contentOf(newRenderer(v).within(MaxSummary))
	return strings.Trim(content, "\n") + "\n"
}

// within is Render with another limit. Where even the least is longer, it
// returns that.
func (r renderer) within(limit int) string {
	r.limit = limit
	p := parts{
		summary: r.summary(), status: r.status(), tasks: r.allTasks(), said: r.said(), commits: r.commits(),
		gates: r.gates(), account: r.account(),
		plan: r.plan(), learnings: r.learnings(), log: r.log(), calls: r.calls(), steer: r.steer(),
	}
	if out := p.island(); len(out) <= limit {
		return out
	}
	r.shortened = true
	p.status = r.status()
	for _, shorten := range shortenings {
		before := r.d
		shorten(&r.d)
		switch {
		case r.d.calls != before.calls:
			p.calls = r.calls()
		case r.d.log != before.log:
			p.log = r.log()
		case r.d.plan != before.plan:
			p.plan = r.plan()
		case r.d.learnings != before.learnings:
			p.learnings = r.learnings()
		case r.d.output != before.output:
			p.gates = r.gates()
		case r.d.account != before.account:
			p.account = r.account()
		case r.d.said != before.said:
			p.said = r.said()
		case r.d.commits != before.commits:
			p.commits, p.tasks = r.commits(), r.allTasks()
		default:
			p.tasks = r.allTasks()
		}
		if out := p.island(); len(out) <= limit {
			return out
		}
	}
	p.tasks = ""
	// The frame grows by at most the digits of its size.
	p.tasks = r.someTasks(limit - len(p.island()) - len("00000"))
	if len(p.island()) > limit {
		p.gates = ""
	}
	if len(p.island()) > limit {
		p.tasks = ""
	}
	return p.island()
}

// parts are the sections of an island, each with its blank line in front.
type parts struct{ summary, status, tasks, said, commits, gates, account, plan, learnings, log, calls, steer string }

func (p parts) island() string {
	return frame(p.summary + p.status + p.tasks + p.said + p.commits + p.gates + p.account + p.plan + p.learnings +
		p.log + p.calls +
		p.steer)
}

type renderer struct {
	v         View
	d         detail
	limit     int
	tasks     []run.Task // of v, normalised
	shortened bool
}

func newRenderer(v View) renderer {
	return renderer{v: v, d: richest, tasks: Normalise(v.Tasks, v.Mask)}
}

// section is a part of the text that is being written.
type section struct{ b strings.Builder }

func (s *section) line(format string, args ...any) { fmt.Fprintf(&s.b, format+"\n", args...) }

func (s *section) add(text string) { s.b.WriteString(text) }

func (s *section) text() string { return s.b.String() }

func (s *section) size() int { return s.b.Len() }

func (r *renderer) speak(text string, limit int) string { return Speak(r.v.Mask, text, limit) }

func (r *renderer) code(name string) string { return Code(r.v.Mask, name) }

func (r *renderer) status() string {
	var s section
	v := r.v
	facts := []string{"**" + r.headline() + "**"}
	if done, total := progress.Counts(r.tasks); total > 0 {
		facts = append(facts, fmt.Sprintf("%d of %d tasks", done, total))
	}
	switch {
	case v.Iteration > 0 && v.End == "":
		facts = append(facts, fmt.Sprintf("iteration %d", v.Iteration)+r.runs())
	case v.Iteration > 0:
		facts = append(facts, strs.Count(v.Iteration, "iteration")+r.runs())
	}
	if v.CostUSD > 0 {
		facts = append(facts, fmt.Sprintf("US$ %.2f", v.CostUSD))
	}
	if agent := r.code(v.Agent); agent != "" {
		if model := r.code(v.Model); model != "" {
			agent += " with " + model
		}
		facts = append(facts, agent)
	}
	if box := r.code(v.Sandbox); box != "" {
		facts = append(facts, "in "+box)
	}
	if login := r.code(v.RequestedBy); login != "" {
		facts = append(facts, "requested by "+login)
	}
	s.line("%s", strings.Join(facts, " · "))
	if note := r.speak(v.Note, maxNote); note != "" {
		s.line("\n> %s", note)
	}
	for _, q := range v.Questions[:min(len(v.Questions), maxQuestions)] {
		if q = r.speak(q, maxReason); q != "" {
			s.line("\n> ❓ %s", q)
		}
	}
	for i, text := range v.Merged {
		if i == maxMerged {
			s.line("\n> … and %d more edits", len(v.Merged)-i)
			break
		}
		if text = r.speak(text, maxReason); text != "" {
			s.line("\n> ✏️ %s", text)
		}
	}
	if v.End.Complete() && v.Proof.Passed == 0 {
		why := "none are configured, and none were found in the repository"
		switch {
		case len(v.Proof.Missing) > 0:
			why = r.speak(strings.Join(v.Proof.Missing, "; "), maxReason)
		case len(v.Proof.Failing) > 0:
			why = "all of them already failed before this run"
		}
		s.line("\n> ⚠️ No checks verified this: %s.", why)
	}
	if v.Removed > 0 {
		s.line("\n> The issue contained hidden text, which people cannot see but agents can: %s removed.",
			strs.Count(v.Removed, "character"))
	}
	if r.shortened {
		s.line("\nShortened to fit. The full record is %s in the branch's history.", r.story())
	}
	return s.text()
}

// runs says how many there were, where it was more than one.
func (r *renderer) runs() string {
	if r.v.Runs < 2 {
		return ""
	}
	return fmt.Sprintf(" in %d runs", r.v.Runs)
}

// headline names the task that is being worked on.
func (r *renderer) headline() string {
	at := slices.IndexFunc(r.tasks, func(t run.Task) bool {
		return (t.Status == run.TaskInProgress || t.Status == run.TaskInReview) && t.ID != ""
	})
	if at >= 0 && r.v.End == "" && r.v.Waits == "" && r.v.Phase == run.PhaseIterating {
		return r.v.Headline() + " on " + r.tasks[at].ID
	}
	return r.v.Headline()
}

// story leads to the history of progress.md, which also shows what was removed.
func (r *renderer) story() string {
	file := fmt.Sprintf(".ralph/%d/progress.md", r.v.IssueNumber)
	if r.v.RepoURL == "" || r.v.Branch == "" {
		return "`" + file + "`"
	}
	return fmt.Sprintf("[`%s`](%s/commits/%s/%s)", file, r.v.RepoURL, r.v.Branch, file)
}

// allTasks mirrors the task list of progress.md. Once it is longer than the
// limit it may end.
func (r *renderer) allTasks() string {
	l := newTaskList()
	for i := range r.tasks {
		if l.task(r.heading(i), r.task(r.tasks[i])); l.size() > r.limit {
			break
		}
	}
	return l.whole(0)
}

// someTasks shows as many tasks as fit into limit bytes, those next to the
// action first, and the number of the others, whether it fits or not.
func (r *renderer) someTasks(limit int) string {
	order := make([]int, len(r.tasks))
	for i := range order {
		order[i] = i
	}
	// Stable: in the order of the plan, but the last done goes before the first.
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := r.tasks[a].Status, r.tasks[b].Status
		if x == run.TaskDone && y == run.TaskDone {
			return cmp.Compare(b, a)
		}
		return cmp.Compare(distance(x), distance(y))
	})
	lines := make(map[int]string)
	for size := 0; len(lines) < len(order) && size <= limit; {
		i := order[len(lines)]
		lines[i] = r.task(r.tasks[i])
		size += len(lines[i])
	}
	first := func(n int) string {
		l := newTaskList()
		for _, i := range slices.Sorted(slices.Values(order[:n])) {
			l.task(r.heading(i), lines[i])
		}
		return l.whole(len(order) - n)
	}
	if all := first(len(lines)); len(all) <= limit {
		return all
	}
	tooMany := sort.Search(len(lines), func(n int) bool { return len(first(n)) > limit })
	return first(max(tooMany-1, 0))
}

// taskList is a list of tasks that is being written.
type taskList struct {
	section
	heading string // the last one
	count   int
	open    int // so many bytes are shown before the list folds
}

func newTaskList() *taskList { return &taskList{heading: noGroup} }

func (l *taskList) task(heading, text string) {
	if heading != l.heading {
		l.heading = heading
		if l.size() > 0 {
			l.line("")
		}
		l.line("#### %s\n", heading)
	}
	l.add(text)
	if l.count++; l.count <= maxOpenTasks {
		l.open = l.size()
	}
}

// whole is the list under its title, with a word on the tasks it does not show.
func (l *taskList) whole(hidden int) string {
	if l.size() == 0 && hidden == 0 {
		return ""
	}
	var s section
	s.line("\n### Tasks\n")
	s.add(l.text()[:l.open])
	if more := l.count - maxOpenTasks; more > 0 {
		s.add(details(strs.Count(more, "more task"), strings.Trim(l.text()[l.open:], "\n")))
	}
	if hidden > 0 {
		if l.size() > 0 {
			s.line("")
		}
		s.line("… and %s not shown here.", strs.Count(hidden, "task"))
	}
	return s.text()
}

// distance is how far tasks of a status are from the action.
func distance(s run.TaskStatus) int {
	switch s {
	case run.TaskInProgress, run.TaskInReview:
		return 0
	case run.TaskOpen:
		return 1
	case run.TaskBlocked:
		return 2
	case run.TaskSkipped:
		return 3
	case run.TaskDone:
		return 4
	default:
		return 4
	}
}

// heading is what stands over a task.
func (r *renderer) heading(i int) string {
	return cmp.Or(taskText(r.tasks[i].Group, maxGroup), noGroup)
}

// task writes a task so that Parse reads the same one.
func (r *renderer) task(t run.Task) string {
	var s section
	box := " "
	if t.Status == run.TaskDone {
		box = "x"
	}
	words := []string{"- [" + box + "]"}
	if t.ID != "" {
		words = append(words, t.ID)
	}
	if t.Priority > 0 {
		words = append(words, "(P"+strconv.Itoa(t.Priority)+")")
	}
	if t.Parallel {
		words = append(words, "[P]")
	}
	if t.Verify {
		words = append(words, "[VERIFY]")
	}
	criteria, after := t.Accept, t.DependsOn
	if r.d.criteria == criteriaOfNone || r.d.criteria == criteriaOfOpen &&
		(t.Status == run.TaskDone || t.Status == run.TaskSkipped) {
		criteria, after = nil, nil
	}
	title := taskText(t.Title, r.d.title)
	if (len(criteria) < len(t.Accept) || len(after) < len(t.DependsOn)) && !strings.HasSuffix(title, cutMark) {
		title = strings.TrimLeft(title+" "+cutMark, " ")
	}
	if t.Status == run.TaskSkipped && title != "" {
		title = "~~" + title + "~~"
	}
	if title != "" {
		words = append(words, title)
	}
	reason := taskText(t.Reason, min(maxReason, r.d.title))
	if reason != "" {
		reason = ": " + reason
	}
	switch t.Status {
	case run.TaskInProgress:
		words = append(words, "⏳ "+markInProgress)
	case run.TaskInReview:
		words = append(words, "🔍 "+markInReview)
	case run.TaskBlocked:
		words = append(words, "⛔ "+markBlocked+reason)
	case run.TaskSkipped:
		words = append(words, "⏭️ "+markSkipped+reason)
	case run.TaskOpen, run.TaskDone:
	}
	if links := r.didTask(t.ID); links != "" {
		words = append(words, markCommits, links)
	}
	s.line("%s", strings.Join(words, " "))
	for i, criterion := range criteria {
		if i == maxCriteria {
			s.line("  - Accept: %s and %d more", cutMark, len(criteria)-i)
			break
		}
		s.line("  - Accept: %s", taskText(criterion, maxCriterion))
	}
	if len(after) > 0 {
		s.line("  - Depends on: %s", strings.Join(after, ", "))
	}
	return s.text()
}

// taskText is speak for text that is read back with progress.md's grammar: it
// begins with nothing that is an id, a priority or a dash there, and does not
// end like a reason in parentheses or like a heading that is closed.
func taskText(text string, limit int) string {
	out, cut := speak(text, limit-len(zeroWidth))
	switch {
	case strings.HasPrefix(out, "("):
		out = `\` + out
	case len(out) > 1 && out[0] == 'T' && isDigit(out[1]):
		out = "T" + zeroWidth + out[1:]
	case strings.HasPrefix(out, "–"), strings.HasPrefix(out, "—"):
		out = zeroWidth + out
	}
	switch {
	case cut:
		return strings.TrimSuffix(out, ellipsis) + cutMark
	case strings.HasSuffix(out, ")"), strings.HasSuffix(out, "#"):
		return out + zeroWidth
	default:
		return out
	}
}

// maxOpenTasks is how many tasks are shown before the list folds.
const maxOpenTasks = 15

// markCommits stands before the commits that did a task. No text of an agent holds
// it: Speak takes out what nobody sees.
const markCommits = "·" + zeroWidth

// markUnsigned stands behind a commit that GitHub did not sign.
const markUnsigned = " ⚠️ **not signed**"

// linked are the commits that are shown: the newest, where not all fit.
func (r *renderer) linked() []Commit {
	return r.v.Commits[max(len(r.v.Commits)-r.d.commits, 0):]
}

// didTask links the commits that did a task.
func (r *renderer) didTask(id string) string {
	var links []string
	for _, c := range r.linked() {
		if c.TaskID == id && id != "" {
			links = append(links, r.commit(c))
		}
	}
	return strings.Join(links, ", ")
}

func (r *renderer) commit(c Commit) string {
	link := r.link(c.OID)
	if c.Verified != nil && !*c.Verified {
		link += markUnsigned
	}
	return link
}

// commits lists those that did no task of the list: the others stand beside theirs.
func (r *renderer) commits() string {
	var s section
	tasks := make(map[string]bool, len(r.tasks))
	for _, t := range r.tasks {
		tasks[t.ID] = t.ID != ""
	}
	for _, c := range r.linked() {
		if tasks[c.TaskID] {
			continue
		}
		if s.size() == 0 {
			s.line("\n### Other commits\n")
		}
		s.line("%s", strings.TrimRight("- "+r.commit(c)+" "+r.speak(c.Subject, 200), " "))
	}
	if hidden := r.v.Older + len(r.v.Commits) - len(r.linked()); hidden > 0 {
		s.line("\nNot linked here: %s.", strs.Count(hidden, "older commit"))
	}
	return s.text()
}

// saidWhole stands where something was said of the whole.
const saidWhole = "the whole"

const saidHead = "| Said | By | Task | Commit |\n|:--|:--|:--|:--|"

// newest is what is shown of what was said: so much of what was taken in last and,
// however little that is, what was said last of lines and of the whole.
func newest(said []Said, most int) (shown []Said) {
	var comment, review int64
	tells := func(s Said) bool { return s.TaskID != "" && s.Why == "" }
	for _, s := range said {
		if tells(s) {
			comment, review = max(comment, s.Comment), max(review, s.Review)
		}
	}
	for i, s := range said {
		last := tells(s) && (s.Comment > 0 && s.Comment == comment || s.Review > 0 && s.Review == review)
		if last || i >= len(said)-most {
			shown = append(shown, s)
		}
	}
	return shown
}

// said shows what became of what was said in review; the newest where not all
// fits.
func (r *renderer) said() string {
	said := r.v.Said
	shown := newest(said, r.d.said)
	if len(shown) == 0 {
		return ""
	}
	var s section
	s.line("\n### Review\n")
	if len(shown) < len(said) {
		s.line("The %d newest of %d:\n", len(shown), len(said))
	}
	s.line(saidHead)
	for _, f := range shown {
		where := cmp.Or(cell(r.code(f.Where)), saidWhole)
		if at := f.anchor(); at != "" && r.v.RepoURL != "" && r.v.PullNumber > 0 {
			where = fmt.Sprintf("[%s](%s/pull/%d#%s)", where, r.v.RepoURL, r.v.PullNumber, at)
		}
		task, commit := "–", "–"
		switch {
		case f.Why != "":
			task = cell(r.speak(f.Why, maxReason))
		case f.TaskID != "":
			task = cell(r.speak(f.TaskID, 20))
		}
		if f.OID != "" {
			commit = r.link(f.OID)
		}
		s.line("| %s | %s | %s | %s |", where, cmp.Or(cell(r.code(f.By)), "–"), task, commit)
	}
	return s.text()
}

// anchor is where on the page of the pull request it was said, "" for nowhere.
func (f Said) anchor() string {
	switch {
	case f.Comment > 0:
		return fmt.Sprintf("discussion_r%d", f.Comment)
	case f.Review > 0:
		return fmt.Sprintf("pullrequestreview-%d", f.Review)
	}
	return ""
}

var oidRE = strs.Lazy(`^[0-9a-f]{7,64}$`)

// link is a short object name that leads to the commit.
func (r *renderer) link(oid string) string {
	if !oidRE().MatchString(oid) {
		return "?"
	}
	if r.v.RepoURL == "" {
		return oid
	}
	return fmt.Sprintf("[`%s`](%s/commit/%s)", oid[:7], r.v.RepoURL, oid)
}

// bareBarRE finds a bar that is not escaped: in a table even a code span ends
// at one.
var bareBarRE = strs.Lazy(`(\\?)\|`)

func cell(text string) string { return bareBarRE().ReplaceAllString(text, `\|`) }

func (r *renderer) gates() string {
	reviewed := r.reviewed()
	if len(r.v.Gates) == 0 && len(r.v.Findings) == 0 && reviewed == "" {
		return ""
	}
	var s section
	s.line("\n### Checks\n")
	for i, g := range r.v.Gates {
		if i == maxGates {
			s.line("- … and %d more", len(r.v.Gates)-i)
			break
		}
		word := "✅ passed"
		switch {
		case g.Passed && g.Note != "":
			word = "⚠️ proves nothing"
		case !g.Passed && g.Note != "":
			word = "⚠️ failed, not blocking"
		case !g.Passed:
			word = "❌ failed"
		}
		took := ""
		if g.Duration > 0 {
			took = fmt.Sprintf(" in %s", g.Duration.Round(100*time.Millisecond))
		}
		s.line("- %s %s%s", cmp.Or(r.code(g.Name), "unnamed"), word, took)
		switch {
		case g.Passed && g.Note == "":
		case g.Note != "":
			if note := r.speak(g.Note, maxReason); note != "" && r.d.output > 0 {
				s.line("  - %s", note)
			}
		default:
			s.add(r.output(g.Detail))
		}
	}
	s.add(reviewed)
	for i, text := range r.v.Findings {
		if i == maxFindings {
			s.line("- … and %d more to look at", len(r.v.Findings)-i)
			break
		}
		if text = r.speak(text, maxReason); text != "" {
			s.line("- 🔎 %s", text)
		}
	}
	return s.text()
}

// reviewed says whether somebody read all of the work once more.
func (r *renderer) reviewed() string {
	var s section
	switch note := r.speak(r.v.ReviewNote, maxReason); {
	case note != "":
		s.line("- ⚠️ the final review did not finish: %s", note)
	case r.v.Reviews == 1:
		s.line("- 👀 an agent reviewed all of the work")
	case r.v.Reviews > 1:
		s.line("- 👀 an agent reviewed all of the work %d times", r.v.Reviews)
	}
	return s.text()
}

// account is the section on what was given up.
func (r *renderer) account() string {
	if r.v.End.Complete() || r.d.account == 0 {
		return ""
	}
	if text := Account(r.v.Mask, r.v.Diagnostics, r.d.account); text != "" {
		return "\n" + text + "\n"
	}
	return ""
}

// Account shows an account of what was given up as a block that opens: lines, of
// which those with a hyphen in front are a list, together of at most about
// limit bytes. It is "" for none. A nil mask masks nothing.
func Account(mask func(string) string, text string, limit int) string {
	var s section
	list := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		item, bullet := strings.CutPrefix(line, "- ")
		if item = Speak(mask, item, maxAccount); item == "" {
			continue
		}
		if s.size()+len(item) > limit {
			s.line("\n…")
			break
		}
		if !list || !bullet {
			s.line("")
		}
		if list = bullet; bullet {
			s.add("- ")
		}
		s.line("%s", item)
	}
	if s.size() == 0 {
		return ""
	}
	return "<details>\n<summary>What did not work, and why</summary>\n" + s.text() + "\n</details>"
}

// Block shows the end of a text of others as a block of code, at most limit
// bytes of it, "" for none: masked, and with nothing in it that a reader or a bot
// would act on. A nil mask masks nothing.
func Block(mask func(string) string, text string, limit int) string {
	r := renderer{v: View{Mask: mask}}
	r.d.output = limit
	return r.output(text)
}

// output shows the end of what a check said, as a block of code below a bullet.
func (r *renderer) output(text string) string {
	text, _ = progress.Clean(text)
	if r.v.Mask != nil {
		text = r.v.Mask(text)
	}
	text = strings.Trim(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
	if strings.TrimSpace(text) == "" || r.d.output == 0 {
		return ""
	}
	fence, size := "```", 0
	var shown []string
	for _, l := range slices.Backward(strings.Split(text, "\n")) {
		if l = outputLine(l); size+len(l) > r.d.output {
			if len(shown) == 0 {
				shown = append(shown, shortLine(l, r.d.output))
			} else {
				shown = append(shown, ellipsis)
			}
			break
		}
		shown = append(shown, l)
		size += len(l)
	}
	slices.Reverse(shown)
	for _, l := range shown {
		for strings.Contains(l, fence) {
			fence += "`"
		}
	}
	var s section
	s.line("  %stext", fence)
	for _, l := range shown {
		s.line("%s", strings.TrimRight("  "+l, " "))
	}
	s.line("  %s", fence)
	return s.text()
}

// outputLine makes one line of output inert as raw text: in a block of code
// nothing is linked, but bots and the message of a squashed merge read it.
func outputLine(l string) string {
	l = inert(strings.TrimRight(l, " \t"))
	if at := strings.TrimLeft(l, " \t"); strings.HasPrefix(at, "/") {
		l = l[:len(l)-len(at)+1] + zeroWidth + at[1:]
	}
	return l
}

// shortLine is the beginning of a line of output, of at most limit bytes.
func shortLine(l string, limit int) string {
	if len(l) <= limit {
		return l
	}
	n := max(limit-len(ellipsis), 0)
	for n > 0 && !utf8.RuneStart(l[n]) {
		n--
	}
	return l[:n] + ellipsis
}

// steer says what people can do, and closes the issue where the work is done.
func (r *renderer) steer() string {
	var s section
	v := r.v
	s.line("\n---\n")
	switch {
	case v.End.Complete() && v.ByJob:
		s.line("The work on #%d is ready for review. To request changes, review this pull request or comment "+
			"`/ralph do <text>`; this needs the workflows for reviews and commands in this repository.", v.IssueNumber)
	case v.End == "" && v.ByJob:
		s.line("I keep this description of the work on #%d up to date. To stop the run, remove the label %s from the "+
			"issue or close the issue; finished work stays on this branch.", v.IssueNumber, Label(v.Label))
	case v.End.Complete():
		s.line("The work on #%d is ready for review. To request changes, review this pull request or comment "+
			"`/ralph do <text>`. `/ralph help` lists all commands.", v.IssueNumber)
	case v.End != "":
		s.line("%s", v.GoOn())
	default:
		s.line("I keep this description of the work on #%d up to date. To stop the run, comment `/ralph stop`, "+
			"remove the label %s from the issue, or close the issue; finished work stays on this branch. "+
			"`/ralph help` lists all commands.", v.IssueNumber, Label(v.Label))
	}
	if v.Closes && v.End.Complete() {
		s.line("\nCloses #%d", v.IssueNumber)
	}
	return s.text()
}
