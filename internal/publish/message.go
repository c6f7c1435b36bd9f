package publish

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// maxSubject is the length of a commit's first line in characters: what git
// and GitHub show without cutting it.
const maxSubject = 72

// maxFullTitle is how much of a task's title goes into the message when the
// subject had to cut it.
const maxFullTitle = 500

// The trailers of a commit. The ones under Ralph- are the record from which a
// commit is recognised after a crash.
const (
	trailerRun        = "Ralph-Run"
	trailerTask       = "Ralph-Task"
	trailerIteration  = "Ralph-Iteration"
	trailerAgent      = "Ralph-Agent"
	trailerModel      = "Ralph-Model"
	trailerCost       = "Ralph-Cost-USD"
	trailerApproved   = "Ralph-Approved-Plan"
	trailerApprovedBy = "Ralph-Approved-By"
	trailerCovered    = "Ralph-Covered-Plan"
)

// Commit is a tree that is to become one commit, and what there is to say
// about it.
type Commit struct {
	Run       run.ID
	Iteration int
	TaskID    string
	TaskTitle string
	// Subject is what the plan calls the task's commit, "" for a subject made of
	// the title.
	Subject string
	// Base is the commit to build on: the last head of the branch that the run
	// knows. BaseTree is its tree, Tree the tree to land; all are object ids.
	Base, BaseTree, Tree string
	// Own are protected paths that were not changed by an agent, and so may be.
	Own []string
	// Protected are the repository's own patterns of those.
	Protected []string

	Model string
	Agent string
	// CostUSD is what this commit's work cost, with the attempts that came to nothing.
	CostUSD float64
	// RequestedBy is the login of the person who started the run, "" locally.
	RequestedBy   string
	RequestedByID int64
	// Approved is the hash of the plan that was approved (progress.Doc.PlanSHA256),
	// "" for none, ApprovedBy the login of whoever did, and Covered the hash of what
	// people and the host have made of that plan since; "" where that is the same.
	Approved, ApprovedBy, Covered string
	// Planned marks the commit that holds a plan and nothing else, Closing the one that removes progress.md at
	// the end, Recorded the one that keeps the notes of a run that stopped short.
	Planned  bool
	Closing  bool
	Recorded bool
}

// Message is the commit message for c: a subject of at most 72 characters, that of
// the plan or a conventional-commit one made of the title, and the trailers. It is
// the same on GitHub and in a local repository. A nil Masker masks by pattern only.
func Message(m *redact.Masker, c Commit) string {
	headline, body := split(m, c)
	return headline + "\n\n" + body
}

func split(m *redact.Masker, c Commit) (headline, body string) {
	var full string
	headline, full = subject(m, c)
	var b strings.Builder
	if full != "" {
		b.WriteString(full + "\n\n")
	}
	for _, t := range trailers(m, c) {
		b.WriteString(t[0] + ": " + t[1] + "\n")
	}
	return headline, strings.TrimSuffix(b.String(), "\n")
}

func trailers(m *redact.Masker, c Commit) [][2]string {
	var out [][2]string
	add := func(key, value string) {
		if value = Plain(m.Mask, value, 100); value != "" {
			out = append(out, [2]string{key, value})
		}
	}
	add(trailerRun, string(c.Run))
	add(trailerTask, c.TaskID)
	if c.Iteration > 0 {
		add(trailerIteration, strconv.Itoa(c.Iteration))
	}
	add(trailerAgent, c.Agent)
	add(trailerModel, c.Model)
	add(trailerCost, strconv.FormatFloat(c.CostUSD, 'f', 4, 64))
	add(trailerApproved, c.Approved)
	if c.Approved != "" && loginRE().MatchString(c.ApprovedBy) {
		add(trailerApprovedBy, c.ApprovedBy)
	}
	if c.Covered != c.Approved {
		add(trailerCovered, c.Covered)
	}
	if loginRE().MatchString(c.RequestedBy) && c.RequestedByID > 0 {
		// Not through add: the address is made of checked parts, and must not
		// be taken for a mention.
		out = append(out, [2]string{
			"Co-authored-by", fmt.Sprintf("%s <%d+%s@users.noreply.github.com>", c.RequestedBy, c.RequestedByID, c.RequestedBy),
		})
	}
	return out
}

// loginRE is what GitHub allows as a login, with the suffix of an App's bot.
var loginRE = strs.Lazy(`^[A-Za-z0-9](?:[A-Za-z0-9_-]{0,99})(?:\[bot\])?$`)

var (
	conventionalRE = strs.Lazy(`^(feat|fix|docs|test|refactor|perf|style|build|ci|chore)(\([A-Za-z0-9 ._/-]{1,30}\))?: +`)
	// breakingRE is how a title would announce a breaking change; releasing one
	// is a person's decision.
	breakingRE = strs.Lazy(`^[a-z]+(\([^)]*\))?!: *`)
	// breakingSubjectRE is the same in a subject, which keeps its type: an agent
	// may have written the plan.
	breakingSubjectRE = strs.Lazy(`^([A-Za-z]+(?:\([^)]*\))?)!:`)
)

// closingSubject is the first line of closing commits.
const closingSubject = "chore: remove the progress file of a finished run"

// subject is the first line, and all of it or of the title where that did not fit.
func subject(m *redact.Masker, c Commit) (line, full string) {
	switch {
	case c.Closing:
		return closingSubject, ""
	case c.Planned:
		return "chore: write the plan", ""
	case c.Recorded:
		return "chore: record what was tried", ""
	}
	if full = Plain(m.Mask, breakingSubjectRE().ReplaceAllString(strings.TrimSpace(c.Subject), "$1:"),
		maxFullTitle); full != "" {
		if line = Plain(m.Mask, full, maxSubject); line == full {
			full = ""
		}
		return line, full
	}
	title := strings.TrimRight(Plain(m.Mask, c.TaskTitle, maxFullTitle), " .;:,")
	prefix := ""
	if at := conventionalRE().FindStringIndex(title); at != nil {
		prefix, title = strings.TrimRight(title[:at[1]], " ")+" ", title[at[1]:]
	} else {
		title = breakingRE().ReplaceAllString(title, "")
		prefix = "feat: "
	}
	if title == "" {
		title = "work on the plan"
		if id := Plain(m.Mask, c.TaskID, 20); id != "" {
			title = "work on " + id
		}
	}
	title = lowerFirst(title)
	line = prefix + Plain(m.Mask, title, maxSubject-utf8.RuneCountInString(prefix))
	if line != prefix+title {
		full = title
	}
	return line, full
}

// lowerFirst begins a title with a small letter, unless its first word is a
// name or an abbreviation.
func lowerFirst(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	word, _, _ := strings.Cut(s[n:], " ")
	if !unicode.IsUpper(first) || strings.IndexFunc(word,
		func(r rune) bool { return !unicode.IsLower(r) && r != '\'' }) >= 0 {
		return s
	}
	return string(unicode.ToLower(first)) + s[n:]
}

// parseTrailers reads the trailers of a commit message: the "Key: value" lines
// at its end.
func parseTrailers(message string) map[string]string {
	out := make(map[string]string)
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(message, "\r\n", "\n"), "\n "), "\n")
	for i := len(lines) - 1; i > 0; i-- {
		key, value, ok := strings.Cut(lines[i], ": ")
		if !ok || strings.ContainsAny(key, " \t") {
			break
		}
		out[key] = value
	}
	return out
}

// Record is what the message of a commit tells of the run that made it.
type Record struct {
	Run       run.ID
	TaskID    string
	Iteration int
	CostUSD   float64
	// Closing: it does nothing but take the progress file away.
	Closing  bool
	Approval Approval
}

// maxIteration is the highest number of an iteration that is believed.
const maxIteration = 1_000_000

// RecordOf reads the message of a commit; ok is false where it is not like those of
// runs. Whoever may push to the branch can have written it: who made the commit has to be asked of GitHub.
func RecordOf(message string) (r Record, ok bool) {
	told := parseTrailers(message)
	r = Record{Run: run.ID(told[trailerRun]), TaskID: told[trailerTask]}
	if r.Run == "" {
		return Record{}, false
	}
	if cost, err := strconv.ParseFloat(told[trailerCost], 64); err == nil && 0 < cost && cost <= maxCost {
		r.CostUSD = cost
	}
	if n, err := strconv.Atoi(told[trailerIteration]); err == nil && 0 < n && n <= maxIteration {
		r.Iteration = n
	}
	subject, _, _ := strings.Cut(message, "\n")
	r.Closing = subject == closingSubject
	if planHashRE().MatchString(told[trailerApproved]) {
		r.Approval.Plan = told[trailerApproved]
		if by := told[trailerApprovedBy]; loginRE().MatchString(by) {
			r.Approval.By = by
		}
		if covered := told[trailerCovered]; planHashRE().MatchString(covered) {
			r.Approval.Covered = covered
		}
	}
	return r, true
}

// planHashRE is what progress.Doc.PlanSHA256 gives.
var planHashRE = strs.Lazy(`^[0-9a-f]{64}$`)

// Approval is what a commit tells of the plan that its run had approval for; see
// the fields of Commit. The zero value is none.
type Approval struct{ Plan, By, Covered string }

// maxCost is more than any commit's work costs, in dollars.
const maxCost = 1e6

// sameCommit says whether message is the one that c would have been given, as
// far as it tells commits apart.
func sameCommit(m *redact.Masker, message string, c Commit) bool {
	have := parseTrailers(message)
	for _, want := range trailers(m, c) {
		switch want[0] {
		case trailerRun, trailerTask, trailerIteration:
			if have[want[0]] != want[1] {
				return false
			}
		}
	}
	return have[trailerRun] != ""
}
