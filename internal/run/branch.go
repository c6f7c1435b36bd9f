package run

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// BranchTemplate is how the branches of a bot are called: a name in which
// {issue} stands for the number of the issue or, where there is none, for the
// short name of the plan. "" is DefaultBranchTemplate.
//
// A bot finds the work on an issue by this name, so that it has to be told from
// the number alone, and back: no text of an issue is ever part of it.
type BranchTemplate string

// DefaultBranchTemplate names branches where nothing else is said.
const DefaultBranchTemplate BranchTemplate = "ralph/" + issueInBranch

const (
	issueInBranch = "{issue}"
	// maxBranchTemplate keeps names short enough for every file system that a
	// checkout may be on, whatever stands for the issue.
	maxBranchTemplate = 80
)

// Check says in a sentence what is wrong with the template. It is stricter than
// git: plain characters only, and a folder in front, which keeps the bot's
// branches apart from those of people (release-7, v2).
func (t BranchTemplate) Check() error {
	name := string(t.or())
	before, after, found := strings.Cut(name, issueInBranch)
	switch {
	case !found || strings.Contains(after, issueInBranch):
		return fmt.Errorf("it must hold %s once, which stands for the number of the issue", issueInBranch)
	case len(name) > maxBranchTemplate:
		return fmt.Errorf("it is longer than %d characters", maxBranchTemplate)
	case !strings.Contains(before, "/"):
		return fmt.Errorf("it must begin with a folder of the bot's own, as in %s, so that no branch of people is "+
			"taken for one of the bot's", DefaultBranchTemplate)
	}
	parts := strings.Split(before+"0"+after, "/")
	if parts[0] == "refs" {
		return fmt.Errorf("it must be the name of a branch, without refs/")
	}
	for _, part := range parts {
		if !plainPart(part) {
			return fmt.Errorf("each part of it must begin with a letter or a digit, hold nothing but letters, " +
				"digits, \"-\", \"_\" and single dots, and end neither in a dot nor in .lock")
		}
	}
	if strings.HasSuffix(before, ".") {
		return fmt.Errorf("there must be no dot before %s", issueInBranch) // a plan may be called lock
	}
	return nil
}

// plainPart says whether git takes the part of a branch's name everywhere, and
// nobody could take it for anything else, such as an option.
func plainPart(part string) bool {
	if part == "" || strings.Contains(part, "..") || strings.HasSuffix(part, ".") ||
		strings.HasSuffix(strings.ToLower(part), ".lock") {
		return false
	}
	for i, r := range part {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("-_.", r)) {
			return false
		}
	}
	return true
}

func (t BranchTemplate) or() BranchTemplate { return cmp.Or(t, DefaultBranchTemplate) }

// Of is the branch for an issue.
func (t BranchTemplate) Of(issue int) string { return t.Named(strconv.Itoa(issue)) }

// Named is the branch for an issue or plan of the short name: lower case letters,
// digits and hyphens.
func (t BranchTemplate) Named(slug string) string {
	return strings.Replace(string(t.or()), issueInBranch, slug, 1)
}

// Slug is what stands for the issue in the name of a branch, where Named could
// have made that name.
func (t BranchTemplate) Slug(branch string) (slug string, ok bool) {
	before, after, _ := strings.Cut(string(t.or()), issueInBranch)
	if slug, ok = strings.CutPrefix(branch, before); !ok {
		return "", false
	}
	if slug, ok = strings.CutSuffix(slug, after); !ok || slug == "" {
		return "", false
	}
	for _, r := range slug {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return "", false
		}
	}
	return slug, true
}

// Issue is the issue that a branch is for, where Of made its name.
func (t BranchTemplate) Issue(branch string) (issue int, ok bool) {
	digits, ok := t.Slug(branch)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0 && t.Of(n) == branch
}

// Fixed says whether the template holds nothing for an issue: it is then the
// name of one branch, which only somebody who works one plan can want.
func (t BranchTemplate) Fixed() bool { return t != "" && !strings.Contains(string(t), issueInBranch) }
