package publish

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

// MaxBody is the most an island, and a description that is all island, takes:
// GitHub refuses more than 65,536 characters. It is in bytes of UTF-8, of which
// there are never fewer than UTF-16 units.
const MaxBody = 60000

// GateSummary is how one check went on the last proposal.
type GateSummary struct {
	Name     string
	Passed   bool
	Duration time.Duration
	// Detail is what a failed check said; outside text.
	Detail string
}

// Landed is a commit that is on the branch.
type Landed struct {
	OID, Tree, Subject string
	// Verified: GitHub signed it, and its tree is the tree that was meant.
	Verified bool
	TaskID   string
}

// View is what the description of a pull request is made of. All its texts may
// come from an agent or an issue.
type View struct {
	IssueNumber int
	// Title is the issue's.
	Title string
	// RepoURL is the repository's page, for links; "" leaves object names bare.
	RepoURL string
	Branch  string
	Tasks   []run.Task
	Commits []Landed
	Phase   run.Phase
	// End is set once the run has ended.
	End       run.EndReason
	Iteration int
	CostUSD   float64
	Agent     string
	Model     string
	// GateSummaries are the checks on the last proposal.
	GateSummaries []GateSummary
	// Learnings is the section of progress.md, in Markdown.
	Learnings string
	// Note is what else there is to say: why a run failed, say.
	Note string
	// Removed counts the hidden characters that were taken out of the issue's
	// text before anybody worked from it.
	Removed int
	// HowToGoOn replaces what is said by default about going on after End.
	HowToGoOn string
	// Closes adds "Closes #N", which closes the issue when the pull request is
	// merged. It takes effect only if End is complete.
	Closes bool
	// Mask holds the secrets known to the process; nil masks by pattern only.
	Mask *redact.Masker
}

// detail says how much a rendering shows. Renderings are tried from the richest
// on until one fits.
type detail struct {
	learnings, gateDetail, title int
	accept                       bool
	tasks, commits               int
}

var details = [...]detail{
	{learnings: 6000, gateDetail: 600, title: 500, accept: true, tasks: 500, commits: 300},
	{learnings: 1500, gateDetail: 200, title: 300, accept: true, tasks: 500, commits: 200},
	{learnings: 0, gateDetail: 0, title: 200, accept: false, tasks: 500, commits: 200},
	{title: 120, tasks: 200, commits: 50},
	{title: 80, tasks: 60, commits: 20},
	{title: 60, tasks: 15, commits: 5},
	{},
}

// RenderBody renders the managed island: the state of the run as a person
// reads it. Equal views give equal texts of at most MaxBody bytes; what does
// not fit is left out in a fixed order, learnings first.
func RenderBody(v View) string { return renderWithin(v, MaxBody) }

func renderWithin(v View, limit int) string {
	var out string
	for i, d := range details {
		r := renderer{v: v, d: d, shortened: i > 0}
		out = island(r.body())
		if len(out) <= limit {
			break
		}
	}
	return out
}

type renderer struct {
	v         View
	d         detail
	shortened bool
	b         strings.Builder
}

func (r *renderer) speak(text string, limit int) string { return speak(r.v.Mask, text, limit) }

func (r *renderer) line(format string, args ...any) { fmt.Fprintf(&r.b, format+"\n", args...) }

func (r *renderer) body() string {
	r.status()
	r.tasks()
	r.commits()
	r.gates()
	r.learnings()
	r.steer()
	return r.b.String()
}

func (r *renderer) status() {
	v := r.v
	done, total := count(v.Tasks)
	facts := []string{fmt.Sprintf("**%s %s**", v.sign(), v.headline())}
	if total > 0 {
		facts = append(facts, fmt.Sprintf("%d of %d tasks", done, total))
	}
	if v.Iteration > 0 {
		facts = append(facts, plural(v.Iteration, "iteration"))
	}
	if v.CostUSD > 0 {
		facts = append(facts, fmt.Sprintf("US$ %.2f", v.CostUSD))
	}
	if agent := code(v.Mask, v.Agent); agent != "" {
		if model := code(v.Mask, v.Model); model != "" {
			agent += " with " + model
		}
		facts = append(facts, agent)
	}
	r.line("%s", strings.Join(facts, " · "))
	if note := r.speak(v.Note, 1000); note != "" {
		r.line("\n> %s", note)
	}
	if v.End.Complete() && len(v.GateSummaries) == 0 {
		r.line("\n> ⚠️ No checks stand behind this: none are set up, and none were found in the repository.")
	}
	if v.Removed > 0 {
		r.line("\n> The issue held hidden text, which people do not see and agents would read: %s left out.", plural(v.Removed, "character"))
	}
	if r.shortened {
		r.line("\nThis is shortened to fit. The whole story is in `.ralph/%d/progress.md` in the branch's history.", v.IssueNumber)
	}
}

// sign and headline say where the run is.
func (v View) sign() string {
	switch {
	case v.End.Complete():
		return "✅"
	case v.End == run.EndFailed || v.End == run.EndBlocked || v.End == run.EndStagnated:
		return "❌"
	case v.End != "" || v.Phase.Terminal() || v.Phase == run.PhaseAwaitingPerson:
		return "⏸️"
	default:
		return "🔄"
	}
}

func (v View) headline() string {
	if v.End.Complete() && len(v.GateSummaries) == 0 {
		return "All tasks are done; no checks ran"
	}
	if v.End != "" {
		return v.End.Sentence()
	}
	switch v.Phase {
	case run.PhaseQueued, run.PhasePreparing:
		return "Getting ready"
	case run.PhasePlanning:
		return "Planning"
	case run.PhaseAwaitingPerson:
		return "Waiting for a person"
	case run.PhaseFinishing:
		return "Running the final checks"
	case run.PhaseIterating, run.PhaseDone, run.PhasePaused, run.PhaseFailed, run.PhaseCancelled:
		return "Working"
	default:
		return "Working"
	}
}

// count leaves skipped tasks out: nobody means to do them.
func count(tasks []run.Task) (done, total int) {
	for _, t := range tasks {
		switch t.Status {
		case run.TaskDone:
			done++
			total++
		case run.TaskSkipped:
		case run.TaskOpen, run.TaskInProgress, run.TaskBlocked:
			total++
		default:
			total++
		}
	}
	return done, total
}

// tasks mirrors the task list of progress.md. Where not all fit, open ones go
// before finished ones.
func (r *renderer) tasks() {
	if len(r.v.Tasks) == 0 || r.d.tasks == 0 {
		return
	}
	shown := make([]bool, len(r.v.Tasks))
	left := r.d.tasks
	for _, wantDone := range []bool{false, true} {
		for i, t := range r.v.Tasks {
			if (t.Status == run.TaskDone) == wantDone && left > 0 {
				shown[i] = true
				left--
			}
		}
	}
	r.line("\n### Tasks\n")
	group, first, hidden := "", true, 0
	for i, t := range r.v.Tasks {
		if !shown[i] {
			hidden++
			continue
		}
		if t.Group != group {
			group = t.Group
			if !first {
				r.line("")
			}
			if name := r.speak(group, 200); name != "" {
				r.line("#### %s\n", name)
			}
		}
		first = false
		r.task(t)
	}
	if hidden > 0 {
		r.line("\n… and %s that are not shown here.", plural(hidden, "task"))
	}
}

func (r *renderer) task(t run.Task) {
	box := " "
	if t.Status == run.TaskDone {
		box = "x"
	}
	words := []string{"- [" + box + "]"}
	if id := r.speak(t.ID, 20); id != "" {
		words = append(words, id)
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
	words = append(words, r.speak(t.Title, r.d.title))
	switch t.Status {
	case run.TaskInProgress:
		words = append(words, "⏳ _in progress_")
	case run.TaskBlocked:
		words = append(words, "⛔ _blocked_")
	case run.TaskSkipped:
		words = append(words, "⏭️ _skipped_")
	case run.TaskOpen, run.TaskDone:
	}
	r.line("%s", strings.Join(words, " "))
	if !r.d.accept {
		return
	}
	const most = 10
	for i, criterion := range t.Accept {
		if i == most {
			r.line("  - … and %d more", len(t.Accept)-most)
			break
		}
		if text := r.speak(criterion, 300); text != "" {
			r.line("  - Accept: %s", text)
		}
	}
}

// commits shows which commit did which task; the newest where not all fit.
func (r *renderer) commits() {
	commits := r.v.Commits
	if len(commits) == 0 || r.d.commits == 0 {
		return
	}
	r.line("\n### Commits\n")
	hidden := max(len(commits)-r.d.commits, 0)
	if hidden > 0 {
		r.line("The %d newest of %d:\n", r.d.commits, len(commits))
	}
	r.line("| Task | Commit | Signed |\n|:--|:--|:--|")
	for _, c := range commits[hidden:] {
		task := cell(r.speak(c.TaskID, 20))
		if task == "" {
			task = "–"
		}
		signed := "by GitHub"
		if !c.Verified {
			signed = "⚠️ **no**"
		}
		r.line("| %s | %s %s | %s |", task, r.link(c.OID), cell(r.speak(c.Subject, 200)), signed)
	}
}

var oidRE = lazy(`^[0-9a-f]{7,64}$`)

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
var bareBarRE = lazy(`(\\?)\|`)

func cell(text string) string { return bareBarRE().ReplaceAllString(text, `\|`) }

func (r *renderer) gates() {
	if len(r.v.GateSummaries) == 0 || r.d.title == 0 {
		return
	}
	r.line("\n### Checks\n")
	const most = 30
	for i, g := range r.v.GateSummaries {
		if i == most {
			r.line("- … and %d more", len(r.v.GateSummaries)-most)
			break
		}
		word := "✅ passed"
		if !g.Passed {
			word = "❌ failed"
		}
		took := ""
		if g.Duration > 0 {
			took = fmt.Sprintf(" in %s", g.Duration.Round(100*time.Millisecond))
		}
		r.line("- %s %s%s", code(r.v.Mask, g.Name), word, took)
		if text := r.speak(g.Detail, r.d.gateDetail); !g.Passed && text != "" {
			r.line("  - %s", text)
		}
	}
}

// learnings keeps the bullets and lines of the section, and nothing else of its
// Markdown.
func (r *renderer) learnings() {
	if r.d.learnings == 0 {
		return
	}
	var lines []string
	size := 0
	for text := range strings.Lines(r.v.Learnings) {
		text = strings.TrimSpace(text)
		for _, bullet := range []string{"- ", "* ", "+ "} {
			if rest, ok := strings.CutPrefix(text, bullet); ok {
				text = rest
				break
			}
		}
		text = r.speak(strings.TrimLeft(text, "# "), 500)
		if text == "" {
			continue
		}
		if size += len(text) + 3; size > r.d.learnings {
			lines = append(lines, "- …")
			break
		}
		lines = append(lines, "- "+text)
	}
	if len(lines) == 0 {
		return
	}
	r.line("\n<details>\n<summary>Learnings</summary>\n\n%s\n\n</details>", strings.Join(lines, "\n"))
}

// steer says what people can do, and closes the issue where the work is done.
func (r *renderer) steer() {
	v := r.v
	r.line("\n---\n")
	switch text := r.speak(v.HowToGoOn, 1000); {
	case v.End.Complete():
		r.line("The work on #%d is ready for review.", v.IssueNumber)
	case v.End != "" && text != "":
		r.line("%s", text)
	case v.End != "":
		r.line("%s", goOn(v.End, v.IssueNumber))
	default:
		r.line("This describes the work on #%d and is kept up to date. To stop it, remove the label `ralph` from the issue or close the issue; what is done stays on this branch.", v.IssueNumber)
	}
	if v.Closes && v.End.Complete() {
		r.line("\nCloses #%d", v.IssueNumber)
	}
}

// goOn says how to go on after a run that did not finish the work.
func goOn(end run.EndReason, issue int) string {
	again := fmt.Sprintf("remove the label `ralph` from #%d and put it back", issue)
	switch end {
	case run.EndPlanned:
		return fmt.Sprintf("To have the plan worked, %s.", again)
	case run.EndAwaitingPerson:
		return fmt.Sprintf("Answer on #%d, then %s to go on.", issue, again)
	case run.EndBlocked, run.EndStagnated:
		return fmt.Sprintf("To go on, make the issue or the open tasks in `.ralph/%d/progress.md` clearer (smaller steps, an example, a pointer to the code), then %s.", issue, again)
	case run.EndFailed:
		return fmt.Sprintf("Once the cause is mended, %s to go on from here.", again)
	case run.EndMaxIterations, run.EndDeadline, run.EndBudgetExhausted, run.EndSingleIteration, run.EndCancelled,
		run.EndAllTasksComplete, run.EndRalphDone:
		return fmt.Sprintf("Nothing is lost. To go on from here, %s.", again)
	default:
		return fmt.Sprintf("To go on from here, %s.", again)
	}
}

// code shows a short name in code, "" for none.
func code(m *redact.Masker, name string) string {
	name = strings.ReplaceAll(inert(tidy(m, name)), "`", "'")
	if name = cutWords(name, 80); name == "" {
		return ""
	}
	return "`" + name + "`"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
