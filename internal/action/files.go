package action

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// The runner refuses outputs of more than 1 MiB together, and a summary of more
// than 1 MiB.
const (
	maxOutput  = 32 << 10
	maxSummary = 1 << 20
)

// output is one output of the step.
type output struct{ Name, Value string }

// writeOutputs appends to the runner's file of outputs; "" is none. Values are
// one line of text each, cut at 32 KiB: what an agent or an issue said is no
// output.
func writeOutputs(file string, outputs []output) error {
	var b strings.Builder
	for _, o := range outputs {
		value := strs.Cut(oneLine(o.Value), maxOutput)
		delimiter := "ralph-" + rand.Text()
		if strings.Contains(value, delimiter) || strings.ContainsAny(o.Name, "=<\r\n") {
			return fmt.Errorf("output %q cannot be written", o.Name)
		}
		fmt.Fprintf(&b, "%s<<%s\n%s\n%s\n", o.Name, delimiter, value, delimiter)
	}
	return appendTo(file, b.String())
}

// writeSummary appends Markdown of our own to the step's summary; "" is none.
// What does not fit is cut off, and that is said.
func writeSummary(file, text string) error {
	const note = "\n\n_The rest does not fit in this summary._\n"
	if len(text) >= maxSummary {
		text = strs.Cut(text, maxSummary-len(note)-1) + note
	}
	return appendTo(file, text)
}

func appendTo(file, text string) error {
	if file == "" || text == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // G304: the runner names its own files
	if err != nil {
		return fmt.Errorf("open the runner's file: %w", err)
	}
	_, err = f.WriteString(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("write the runner's file: %w", err)
	}
	return nil
}
