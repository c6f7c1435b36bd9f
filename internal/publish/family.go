package publish

import (
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// Why a sub-issue is not worked.
const (
	MemberClosed    = "closed"
	MemberGone      = "deleted"
	MemberElsewhere = "in another repository: label it there"
	MemberChanged   = "its text changed after this issue was labelled: label it, too"
	MemberAuthor    = "its author has no write access: label it, too"
	MemberEmpty     = "its text is empty"
)

// Family is how the work on the sub-issues of an issue stands.
type Family struct {
	Stacked bool
	// End is how it ended, "" as long as it has not.
	End     run.EndReason
	Members []Member
}

// Member is one of the sub-issues.
type Member struct {
	// Name is "#12", and Pull the number of its pull request, 0 for none.
	Name string
	Pull int
	// Skipped is why it is not worked, "" where it is; Waits are the issues that it waits
	// for, and End is how its last run ended.
	Skipped string
	Waits   []string
	Working bool
	End     run.EndReason
}

// FamilyText shows the work on sub-issues, in their order. All of it is our own words.
func FamilyText(f Family) string {
	var b strings.Builder
	switch {
	case f.End == "" && f.Stacked:
		b.WriteString("**I work on the sub-issues, one after the other.** Each begins on the branch of the one " +
			"before it. This comment is kept up to date.\n")
	case f.End == "":
		b.WriteString("**I work on the sub-issues, one after the other.** This comment is kept up to date.\n")
	default:
		fmt.Fprintf(&b, "**The work on the sub-issues has ended.** %s.\n", familyEnd(f.End))
	}
	b.WriteString("\n| Issue | State | Pull request |\n| --- | --- | --- |\n")
	for _, m := range f.Members {
		pull := ""
		if m.Pull > 0 {
			pull = fmt.Sprintf("#%d", m.Pull)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.Name, m.standing(f.End), pull)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func familyEnd(end run.EndReason) string {
	switch end { //nolint:exhaustive // it has no other ends
	case run.EndAllTasksComplete:
		return "All are done"
	case run.EndBlocked:
		return "Some need a person; see below"
	default:
		return end.Sentence()
	}
}

func (m Member) standing(ended run.EndReason) string {
	switch {
	case m.Skipped != "":
		return m.Skipped
	case len(m.Waits) > 0:
		return "waits for " + listed(m.Waits)
	case m.Working:
		return "in progress"
	case m.End.Complete():
		return "done"
	case m.End != "":
		return m.End.Sentence()
	case ended != "":
		return "not begun"
	default:
		return "its turn comes"
	}
}
