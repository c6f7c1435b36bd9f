package plan

import (
	"strings"
	"testing"
)

func TestFromPromptIsOneTask(t *testing.T) {
	t.Parallel()
	const text = "# Clean up\n\n- [ ] one\n- [ ] two\n\n## Acceptance\n\n- it works\n"
	p, err := FromPrompt(text, "DONE")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Tasks) != 1 || p.Tasks[0].Title != "Clean up" || len(p.Accept) != 0 || p.Text != strings.TrimSpace(text) {
		t.Errorf("plan %+v", p)
	}
	other, err := FromPrompt(text, "FINISHED")
	if err != nil || other.SHA256 == p.SHA256 {
		t.Errorf("with another promise it is the same plan (%v)", err)
	}
}
