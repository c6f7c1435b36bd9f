package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/publish/island"
)

// Held is what a task's commit lacks because a person has to apply it.
type Held struct {
	TaskID string
	Paths  []HeldBack
	// More is how many paths there are beyond these.
	More int
	// Patch is "" where it is too large to be shown.
	Patch string
}

// maxHeldShown bounds the paths that one comment names.
const maxHeldShown = 30

// CommentHeld hands what was held back to people, once: on the run's pull
// request, or on the issue where number is 0.
func (p *Publisher) CommentHeld(ctx context.Context, number int, h Held) (url string, err error) {
	if number == 0 {
		number = p.Issue
	}
	text := HeldText(p.Mask.Mask, p.Branch, h)
	sum := sha256.Sum256([]byte(text))
	return p.commentOn(ctx, number, "held:"+h.TaskID+":"+hex.EncodeToString(sum[:6]), text)
}

// HeldText hands over what was held back, with its patch where one can be shown
// as it is: what a reader would not see must not be applied either.
func HeldText(mask func(string) string, branch string, h Held) string {
	var b strings.Builder
	changes := "One change is"
	all := len(h.Paths) + h.More
	if all > 1 {
		changes = fmt.Sprintf("%d changes are", all)
	}
	fmt.Fprintf(&b, "**%s left for you to apply.** Task %s changed protected paths. The checks ran without these "+
		"changes, and the run continues without them:\n\n", changes, island.Code(mask, h.TaskID))
	shownPaths := h.Paths[:min(len(h.Paths), maxHeldShown)]
	for _, path := range shownPaths {
		fmt.Fprintf(&b, "- %s: %s\n", island.Code(mask, path.Path), path.Reason)
	}
	if more := all - len(shownPaths); more > 0 {
		fmt.Fprintf(&b, "- … and %d more\n", more)
	}
	shown := mask(h.Patch)
	switch {
	case h.Patch == "":
		b.WriteString("\nThe patch is too large to show here.")
	case !Readable(h.Patch):
		b.WriteString("\nThe patch is not shown because it contains binary data or invisible characters.")
	default:
		fence := "```"
		for strings.Contains(shown, fence) {
			fence += "`"
		}
		fmt.Fprintf(&b, "\nAn agent wrote this patch: read it before you apply it. To apply it, save it to a file, "+
			"check out `%s`, run `git apply --index FILE` and commit.\n\n", branch)
		if shown != h.Patch {
			b.WriteString("Text that looked like a secret is masked, so the patch may not apply as is.\n\n")
		}
		fmt.Fprintf(&b, "<details>\n<summary>The patch</summary>\n\n%sdiff\n%s\n%s\n\n</details>", fence,
			strings.TrimSuffix(shown, "\n"), fence)
	}
	return b.String()
}

// Readable says whether a person who reads a patch sees all that it does: it holds
// no binary data, and no character that is not shown.
func Readable(patch string) bool {
	return utf8.ValidString(patch) && !strings.ContainsRune(patch, utf8.RuneError) &&
		!strings.ContainsFunc(patch, unseen) &&
		!strings.Contains(patch, "\nBinary files ")
}

// unseen are characters that a page does not show, or shows elsewhere than they
// stand.
func unseen(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Cf, r)
}
