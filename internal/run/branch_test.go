package run_test

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/run"
)

// TestBranchTemplate is H6: there is nothing in the name of a branch that a text
// could choose.
func TestBranchTemplate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		template run.BranchTemplate
		of7      string
	}{
		{"", "ralph/7"},
		{run.DefaultBranchTemplate, "ralph/7"},
		{"bot/issue-{issue}", "bot/issue-7"},
		{"bots/ralph/{issue}/work", "bots/ralph/7/work"},
		{"Team_1/v1.2-{issue}x", "Team_1/v1.2-7x"},
		{"ralph/1{issue}1", "ralph/171"},
	} {
		if err := c.template.Check(); err != nil {
			t.Errorf("%q: %v", c.template, err)
		}
		if got := c.template.Of(7); got != c.of7 || !gitrepo.ValidBranch(got) {
			t.Errorf("%q names the branch of issue 7 %q, want %q", c.template, got, c.of7)
		}
		if got, ok := c.template.Issue(c.of7); got != 7 || !ok {
			t.Errorf("%q: the branch %q is for issue %d, %v", c.template, c.of7, got, ok)
		}
		if got := c.template.Named("lock"); !gitrepo.ValidBranch(got) {
			t.Errorf("%q: the plan lock.md gets the branch %q", c.template, got)
		}
	}
}

// What is not the name of an issue's branch is for no issue.
func TestBranchesOfOthers(t *testing.T) {
	t.Parallel()
	template := run.BranchTemplate("ralph/issue-{issue}-work")
	for _, branch := range []string{
		"", "main", "ralph/7", "ralph/issue-7", "ralph/issue--work", "ralph/issue-0-work", "ralph/issue--7-work",
		"ralph/issue-+7-work", "ralph/issue-07-work",
		"ralph/issue-7x-work", "ralph/issue-7-work/x", "x/ralph/issue-7-work", "RALPH/issue-7-work",
		"ralph/issue-99999999999999999999-work", "ralph/issue-٧-work",
		"ralph/issue-{issue}-work", "ralph/issue-7-work\n", "ralph/issue-work",
	} {
		if n, ok := template.Issue(branch); ok {
			t.Errorf("%q is taken for the branch of issue %d", branch, n)
		}
	}
	if n, ok := run.DefaultBranchTemplate.Issue("ralph/my-plan"); ok {
		t.Errorf("the branch of a plan is taken for that of issue %d", n)
	}
}

func TestBranchTemplateIsRefused(t *testing.T) {
	t.Parallel()
	for template, says := range map[run.BranchTemplate]string{
		"ralph/work":                        "{issue} once",
		"ralph/{issue}/{issue}":             "{issue} once",
		"ralph/{ISSUE}":                     "{issue} once",
		"{issue}":                           "a folder",
		"v{issue}":                          "a folder",
		"release-{issue}/x":                 "a folder",
		"refs/heads/ralph/{issue}":          "refs/",
		"/{issue}":                          "each part",
		"ralph//{issue}":                    "each part",
		"ralph/{issue}/":                    "each part",
		"-ralph/{issue}":                    "each part",
		"--force/{issue}":                   "each part",
		"ralph/-{issue}":                    "each part",
		"../{issue}":                        "each part",
		"ralph/.{issue}":                    "each part",
		"ralph/a..b{issue}":                 "each part",
		"ralph/{issue}.":                    "each part",
		"ralph/{issue}.lock":                "each part",
		"ralph.LOCK/{issue}":                "each part",
		"ralph/a.{issue}":                   "no dot before",
		"ralph/{issue} x":                   "each part",
		"ralph/{issue}\n":                   "each part",
		"ralph/{issue}\x00":                 "each part",
		"ralph/{issue}~1":                   "each part",
		"ralph/{issue}^{}":                  "each part",
		"ralph/{issue}@{1}":                 "each part",
		"ralph/{issue}-{slug}":              "each part",
		"ralph/${{ github.token }}/{issue}": "each part",
		"ralph/$(id)/{issue}":               "each part",
		"+ralph/{issue}":                    "each part",
		"ralph:{issue}/x":                   "a folder",
		"rälph/{issue}":                     "each part",
		"ralph/\u202e{issue}":               "each part",
		"ralph/*{issue}":                    "each part",
		"ralph\\{issue}":                    "a folder",
		run.BranchTemplate(strings.Repeat("a", 80) + "/{issue}"): "longer than",
	} {
		if err := template.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want words on %q", template, err, says)
		}
	}
}

func TestBranchTemplateSlug(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ template, branch, want string }{
		{"", "ralph/my-plan", "my-plan"},
		{"bots/p-{issue}-x", "bots/p-my-plan-x", "my-plan"},
		{"bots/p-{issue}-x", "bots/p-x", ""},
		{"", "ralph/", ""},
		{"", "ralph/My_plan", ""},
		{"", "ralph/a/b", ""},
		{"", "mine", ""},
	} {
		if got, ok := run.BranchTemplate(tc.template).Slug(tc.branch); got != tc.want || ok != (tc.want != "") {
			t.Errorf("%s in %s: %q, %t", tc.branch, tc.template, got, ok)
		}
	}
}
