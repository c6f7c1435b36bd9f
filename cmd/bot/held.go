package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

// heldPatch is what was held back at one task, with the file that its patch was
// put into.
type heldPatch struct {
	held loop.Held
	// file is "" where there is no patch that a person could read and apply; why
	// says what it lacks.
	file, why string
	// masked: something that looks like a secret is not in the file.
	masked bool
}

// keepHeld puts the patches of what was held back into files in dir, where the
// transcripts of the run are.
func keepHeld(dir string, all []loop.Held, mask *redact.Masker) ([]heldPatch, error) {
	out := make([]heldPatch, 0, len(all))
	for i, h := range all {
		p := heldPatch{held: h}
		switch {
		case h.Patch == "":
			p.why = "the patch is too large to save"
		case !publish.Readable(h.Patch):
			p.why = "the patch is not saved because it contains binary data or invisible characters"
		default:
			text := mask.Mask(h.Patch)
			p.masked = text != h.Patch
			p.file = filepath.Join(dir, fmt.Sprintf("held-%d.patch", i+1))
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, fmt.Errorf("keep what was held back: %w", err)
			}
			if err := os.WriteFile(p.file, []byte(text), 0o600); err != nil {
				return nil, fmt.Errorf("keep what was held back: %w", err)
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// heldSummary tells a person what was held back, and how to apply it.
func heldSummary(all []heldPatch) string {
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Left for you to apply, because these paths are protected. An agent wrote each patch: read it first.\n")
	for _, p := range all {
		for _, path := range p.held.Paths {
			fmt.Fprintf(&b, "- %s\n", run.PrintableLine(fmt.Sprintf("%s, at %s: %s", path.Path, p.held.TaskID, path.Reason)))
		}
		if p.held.More > 0 {
			fmt.Fprintf(&b, "- and %d more paths, at %s\n", p.held.More, p.held.TaskID)
		}
		switch {
		case p.file == "":
			fmt.Fprintf(&b, "  %s\n", p.why)
		case p.masked:
			fmt.Fprintf(&b, "  git apply --index %s\n  Text that looked like a secret is masked, so the patch may "+
				"not apply as is.\n", quoted(p.file))
		default:
			fmt.Fprintf(&b, "  git apply --index %s\n", quoted(p.file))
		}
	}
	return b.String()
}
