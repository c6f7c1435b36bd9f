package action

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

// Attack: what an agent does, and what a task is called, holds a secret in a form that
// the runner does not know. The step's log has neither.
func TestActionLogIsMasked(t *testing.T) {
	t.Parallel()
	const key = "key-of-the-model-3141592653"
	secrets := []string{key, base64.StdEncoding.EncodeToString([]byte(key)), "AKIAIOSFODNN7EXAMPLE"}
	var out bytes.Buffer
	s := &step{log: NewLog(&out), mask: redact.New(key)}
	show := s.show(func(run.Event) {})
	for _, secret := range secrets {
		show(run.Event{Kind: run.EventIteration, TaskID: "T1", TaskTitle: "write " + secret})
		show(run.Event{Kind: run.EventAgentActivity, Text: "Bash(echo " + secret + ")"})
		s.logger().Warn().Str("what", secret).Msg("failed: " + secret)
	}
	for _, secret := range secrets {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%s stands in\n%s", secret, out.String())
		}
	}
	for _, want := range []string{"T1 write ***", "· Bash(echo ***", "failed: ***"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
