package prompt

import (
	"embed"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/run"
)

//go:embed PROMPT_*.md
var builtIn embed.FS

// MaxTemplate bounds a template, in bytes, so that what a task needs still
// fits beside it.
const MaxTemplate = 16 << 10

// Templates are a repository's own texts in place of the built-in ones, by the
// name of the template. nil has none.
type Templates map[string]string

// Names lists the templates: one for each job, and one for each role that
// builds in a way of its own, whose text follows that of the job.
func Names() []string {
	return []string{
		string(JobPlan), string(JobBuild), string(JobSplit), string(JobReview), string(JobVerify),
		string(run.RoleTester), string(run.RoleDebugger), string(run.RoleArchitect),
	}
}

// FileName is where a repository keeps its own text of a template.
func FileName(template string) string { return ".ralph/PROMPT_" + template + ".md" }

// BuiltIn is the text of a template that comes with the program; "" for a name
// that is none of Names.
func BuiltIn(template string) string {
	src, err := builtIn.ReadFile("PROMPT_" + template + ".md")
	if err != nil {
		return ""
	}
	return string(src)
}

// Override returns t with a repository's own text of one template. A text that
// is empty, too long or not UTF-8 is a *run.UserError.
func (t Templates) Override(template string, src []byte) (Templates, error) {
	hint := ""
	switch {
	case BuiltIn(template) == "":
		hint = "the templates are " + strings.Join(Names(), ", ")
	case len(src) > MaxTemplate:
		hint = fmt.Sprintf("shorten it to at most %d KiB", MaxTemplate>>10)
	case !utf8.Valid(src):
		hint = "save it as UTF-8 text"
	case strings.TrimSpace(string(src)) == "":
		hint = "write something in it, or remove it to use the built-in template"
	}
	if hint != "" {
		return nil, &run.UserError{Message: "the prompt template " + FileName(template) + " cannot be used", Hint: hint}
	}
	t = maps.Clone(t)
	if t == nil {
		t = Templates{}
	}
	t[template] = string(src)
	return t, nil
}

// of is the text for a job in a role.
func (t Templates) of(job Job, role run.Role) (string, error) {
	text := t.text(string(job))
	if text == "" {
		return "", fmt.Errorf("render prompt: no template for the job %q", job)
	}
	if job != JobBuild || role == "" || role == run.RoleImplementer {
		return text, nil
	}
	own := t.text(string(role))
	if own == "" {
		return "", fmt.Errorf("render prompt: no template for the role %q", role)
	}
	return strings.TrimRight(text, "\r\n") + "\n\n" + own, nil
}

func (t Templates) text(template string) string {
	if own, ok := t[template]; ok {
		return own
	}
	return BuiltIn(template)
}
