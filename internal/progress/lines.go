package progress

import (
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Caps on what the labelled lines below a task say.
const (
	maxChecks = 5
	maxCheck  = 1000 // bytes
	maxFiles  = 20
	maxSteps  = 50
)

// lineKind is what a label below a task announces.
type lineKind int

const (
	lineOther lineKind = iota
	lineAccept
	lineDepends
	lineDo
	lineFiles
	lineVerify
	lineCommit
)

// labels are the names of each kind.
var labels = map[lineKind][]string{
	lineAccept: {
		"accept", "acceptance", "acceptance criteria", "acceptance criterion", "done when", "definition of done", "success criteria",
	},
	lineDepends: {"depends on", "depends", "after"},
	lineDo:      {"do", "steps"},
	lineFiles:   {"files", "file"},
	lineVerify:  {labelVerify, "verification"},
	lineCommit:  {"commit", "commit message"},
}

// labelVerify starts the line of a check, and a criterion that is to be verified
// by other means than a command.
const labelVerify = "Verify"

// labelled gives what the label at the start of s announces, and the text behind it.
func labelled(s string) (kind lineKind, rest string) {
	name, rest, ok := label(s)
	for kind, names := range labels {
		if ok && anyFold(name, names...) {
			return kind, rest
		}
	}
	return lineOther, ""
}

// AddLine takes a labelled line over into t as Parse does with one below a task,
// for those who find tasks by other rules. It says whether there was a label to
// go by; dependencies are left to the caller.
func AddLine(t *run.Task, line string) bool {
	kind, rest := labelled(line)
	if kind == lineOther || kind == lineDepends {
		return false
	}
	t.Accept = append(t.Accept, addLine(t, kind, rest)...)
	return true
}

// addLine takes over what stands behind a label. What is to be verified and is no
// command is returned as criteria.
func addLine(t *run.Task, kind lineKind, text string) (criteria []string) {
	if kind != lineAccept && kind != lineDo && isNone(text) {
		return nil
	}
	switch kind {
	case lineAccept:
		if s := visible(text); s != "" {
			return []string{s}
		}
	case lineDo:
		if s := visible(text); s != "" && len(t.Steps) < maxSteps {
			t.Steps = append(t.Steps, s)
		}
	case lineFiles:
		addFiles(t, text)
	case lineVerify:
		return addChecks(t, text)
	case lineCommit:
		if t.Subject == "" {
			t.Subject = subjectOf(text)
		}
	case lineOther, lineDepends:
	}
	return nil
}

// isNone says whether a value says that there is none: "None", "n/a", "none
// (verification only)".
func isNone(s string) bool {
	s = strings.ToLower(strings.Trim(visible(s), "`*_. "))
	if anyFold(s, "", "-", "–", "—", "no", "none", "nothing", "n/a", "no commit") {
		return true
	}
	rest, ok := strings.CutPrefix(s, "no commit")
	if !ok {
		rest, ok = strings.CutPrefix(s, "none")
	}
	return ok && (strings.HasPrefix(rest, " (") || strings.HasPrefix(rest, " need") || strings.HasPrefix(rest, " require"))
}

// subjectOf is the subject that a line names: the code span it begins with, where
// no more than a remark in parentheses follows, else all of it.
func subjectOf(text string) string {
	s := oneClean(text)
	if code, rest, ok := codeSpan(s); ok && (rest == "" || rest[0] == '(') {
		s = code
	}
	return strs.Cut(visible(s), maxTitle)
}

// filesRE is one of a list of files, which commas separate that stand in no code span or remark.
var filesRE = strs.Lazy("(?:`[^`]*`|\\([^()]*\\)|[^,])+")

// addFiles takes over a list of files.
func addFiles(t *run.Task, text string) {
	for _, s := range filesRE().FindAllString(oneClean(text), -1) {
		s = strings.TrimSpace(s)
		if code, rest, ok := codeSpan(s); ok && rest == "" {
			s = code
		}
		if s = strs.Cut(visible(s), maxCell); !isNone(s) && len(t.Files) < maxFiles && !slices.Contains(t.Files, s) {
			t.Files = append(t.Files, s)
		}
	}
}

// addChecks takes over the commands of a line. What is none, and what is too long
// or one too many, is returned as criteria: it is still told to the agent.
func addChecks(t *run.Task, text string) (criteria []string) {
	cmds := commands(text)
	if len(cmds) == 0 {
		return []string{labelVerify + ": " + visible(text)}
	}
	for _, c := range cmds {
		switch {
		case slices.Contains(t.Checks, c):
		case len(t.Checks) < maxChecks && len(c) <= maxCheck:
			t.Checks = append(t.Checks, c)
		default:
			criteria = append(criteria, behind(labelVerify+": "+quoteCode(c), maxLine))
		}
	}
	return criteria
}

// commands finds the shell commands of the text behind "Verify:". They stand in
// code spans at its start, maybe with a label before ("Lint: `make lint`") or a
// remark behind them. A text without backticks is told to the agent, and never run.
func commands(text string) (cmds []string) {
	s := oneClean(text)
	if i := strings.IndexByte(s, '`'); i > 0 && i <= maxLabel &&
		(strings.HasSuffix(s[:i], ": ") || anyFold(s[:i], "run ", "execute ")) {
		s = s[i:]
	}
	code, rest, ok := codeSpan(s)
	if ok && !strings.Contains(code, " ") && rest != "" && isWord(rest) && !isProgram(code) {
		return nil // "`report.go` exists" names a thing
	}
	for ok {
		if code = strings.TrimPrefix(code, "$ "); code != "" {
			cmds = append(cmds, code)
		}
		for _, joint := range [...]string{",", ";", "&&", "and ", "then "} {
			rest = strings.TrimSpace(strings.TrimPrefix(rest, joint))
		}
		code, rest, ok = codeSpan(rest)
	}
	return cmds
}

// isProgram says whether a single word in a sentence can be what runs: "make",
// "./check.sh"; "src/main.go" and "parse()" are rather what it is about.
func isProgram(word string) bool {
	return strings.HasPrefix(word, "./") || !strings.ContainsAny(word, "./()[]{}<>:=*")
}

// oneClean is s on one line and without what nobody sees.
func oneClean(s string) string {
	s, _ = Clean(s)
	return strs.OneLine(s)
}

// codeSpan splits s behind the code span that it begins with. The blank that
// Markdown takes off both ends of one is taken off.
func codeSpan(s string) (code, rest string, ok bool) {
	n := len(s) - len(strings.TrimLeft(s, "`"))
	if n == 0 {
		return "", "", false
	}
	for i := n; i < len(s); {
		if s[i] != '`' {
			i++
			continue
		}
		k := i
		for k < len(s) && s[k] == '`' {
			k++
		}
		if k-i == n {
			return strings.TrimSpace(s[n:i]), strings.TrimSpace(s[k:]), true
		}
		i = k
	}
	return "", "", false
}

// quoteCode is a code span with s in it, which is not empty.
func quoteCode(s string) string {
	fence := strings.Repeat("`", longestRun(s, '`')+1)
	if s[0] == '`' || s[len(s)-1] == '`' {
		s = " " + s + " "
	}
	return fence + s + fence
}

// Below is the list that says what a task does beside its title, but for what it depends on.
// Its lines open no block, and are read back as what they are.
func Below(t run.Task) string {
	var b strings.Builder
	line := func(label, text string) { b.WriteString(strings.TrimSuffix("- "+label+": "+text, " ") + "\n") }
	var steps []string
	for _, s := range t.Steps {
		if s = inline(s, maxLine); s != "" {
			steps = append(steps, s)
		}
	}
	switch {
	case len(steps) == 1:
		line("Do", steps[0])
	case len(steps) > 1:
		line("Do", "")
		b.WriteString("  - " + strings.Join(steps, "\n  - ") + "\n")
	}
	if files := fileList(t.Files); files != "" {
		line("Files", files)
	}
	for _, a := range t.Accept {
		if a = inline(a, maxLine); a != "" {
			line("Accept", a)
		}
	}
	for _, c := range t.Checks {
		if c = oneClean(c); c != "" {
			line(labelVerify, quoteCode(c))
		}
	}
	if s := behind(t.Subject, maxTitle); s != "" {
		if subjectOf(s) != s {
			s = quoteCode(s)
		}
		line("Commit", s)
	}
	return b.String()
}

func fileList(files []string) string {
	var list []string
	for _, f := range files {
		if f = strings.ReplaceAll(behind(f, maxCell), "`", "'"); strings.Contains(f, ",") {
			f = "`" + f + "`"
		}
		if f != "" {
			list = append(list, f)
		}
	}
	return strings.Join(list, ", ")
}
