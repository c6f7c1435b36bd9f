package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// maxWaits bounds the issues that a text may wait for.
const maxWaits = 20

// IssueRef names an issue, as "#12" or "acme/tools#12" does in a text.
type IssueRef struct {
	// Owner and Repo are "" for the repository that the text is in.
	Owner, Repo string
	Number      int
}

// String is the reference as people write it.
func (r IssueRef) String() string {
	if r.Repo == "" {
		return "#" + strconv.Itoa(r.Number)
	}
	return fmt.Sprintf("%s/%s#%d", r.Owner, r.Repo, r.Number)
}

// waitsRE is the start of a line that names issues, refRE one of them, and stackRE a line
// that asks for a stack.
var (
	waitsRE = strs.Lazy(`^(?i)[*_]{0,3}(?:depends on|blocked by)[*_]{0,3}:?[*_]{0,3} *(.*)$`)
	stackRE = strs.Lazy(`^(?i)[*_]{0,3}stacked[*_]{0,3}: *[*_]{0,3} *(?:yes|true)\b`)
	refRE   = strs.Lazy(`^(?i)(?: *[,;&+] *| +and +| )*(?:([a-z\d][a-z\d-]{0,38})/([a-z\d._-]{1,100}))?#([1-9]\d{0,8})\b`)
)

// relations reads from the lines of a text that say so which issues have to be closed
// first, and whether sub-issues are to be stacked: what stands in code or a quote, or below
// a task, says nothing.
func relations(blocks []block) (refs []IssueRef, stacked bool) {
	line := func(s string) {
		stacked = stacked || stackRE().MatchString(strings.TrimSpace(s))
		m := waitsRE().FindStringSubmatch(strings.TrimSpace(s))
		if m == nil {
			return
		}
		for rest := m[1]; ; {
			ref := refRE().FindStringSubmatch(rest)
			if ref == nil {
				return
			}
			rest = rest[len(ref[0]):]
			n, err := strconv.Atoi(ref[3])
			if at := (IssueRef{Owner: ref[1], Repo: ref[2], Number: n}); err == nil && len(refs) < maxWaits &&
				!slices.Contains(refs, at) {
				refs = append(refs, at)
			}
		}
	}
	for _, b := range blocks {
		if b.quote {
			continue
		}
		if b.kind == blockProse {
			for _, l := range b.lines {
				line(l)
			}
		}
		for _, it := range b.items {
			if !it.box {
				line(it.text)
			}
		}
	}
	return refs, stacked
}
