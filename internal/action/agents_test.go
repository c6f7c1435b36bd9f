package action

import (
	"cmp"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// One file says which agents there are, and what is tested is what is installed.
func TestAgentVersionsAgree(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(top + "images/agent/agents.txt")
	if err != nil {
		t.Fatal(err)
	}
	tested, err := os.ReadFile(top + "test/npm/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var npm struct {
		DevDependencies, OptionalDependencies map[string]string
	}
	if err := json.Unmarshal(tested, &npm); err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 3 {
			t.Fatalf("%q is not a command, a package and a version", line)
		}
		n++
		// opencode's tests take its program without the package around it.
		got := cmp.Or(npm.DevDependencies[fields[1]],
			npm.OptionalDependencies[strings.Replace(fields[1], "-ai", "-linux-x64", 1)])
		if got != fields[2] {
			t.Errorf("%s is installed in version %s and tested in %q", fields[1], fields[2], got)
		}
	}
	if n < 5 {
		t.Errorf("%d agents", n)
	}
	for _, file := range []string{"scripts/action-setup.sh", "images/agent/Dockerfile"} {
		source, err := os.ReadFile(top + file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(source), "agents.txt") || strings.Contains(string(source), "claude-code@2") {
			t.Errorf("%s has versions of its own", file)
		}
	}
}
