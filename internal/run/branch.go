package run

import (
	"strconv"
	"strings"
)

// branchPrefix is the folder of the bot's branches. Every branch in it is taken for one of
// the bot's.
const branchPrefix = "ralph/"

// Branch is the branch for the work on an issue. A bot without a database finds the work by
// this name, and the issue by the branch's: no text of an issue is ever part of it.
func Branch(issue int) string { return BranchNamed(strconv.Itoa(issue)) }

// BranchNamed is the branch for an issue or plan of the short name: lower case letters,
// digits and hyphens.
func BranchNamed(slug string) string { return branchPrefix + slug }

// BranchSlug is the short name of the issue or plan that a branch is for, where BranchNamed
// could have made its name.
func BranchSlug(branch string) (slug string, ok bool) {
	slug, ok = strings.CutPrefix(branch, branchPrefix)
	if !ok || slug == "" {
		return "", false
	}
	for _, r := range slug {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return "", false
		}
	}
	return slug, true
}

// BranchIssue is the issue that a branch is for, where Branch made its name.
func BranchIssue(branch string) (issue int, ok bool) {
	digits, ok := BranchSlug(branch)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0 && Branch(n) == branch
}
