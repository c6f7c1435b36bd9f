//go:build release

package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A release is built of the last commit as release.yml does it, and the first
// step of the Action brings just that program.
func TestReleaseIsWhatTheActionBrings(t *testing.T) {
	t.Parallel()
	where, err := exec.CommandContext(t.Context(), "../scripts/tools.sh", "where", "goreleaser").Output()
	tool := strings.TrimSpace(string(where))
	if err == nil {
		_, err = os.Stat(tool)
	}
	if err != nil {
		t.Fatalf("%v (scripts/tools.sh release brings it)", err)
	}
	dir := filepath.Join(t.TempDir(), "ralph-action")
	command := func(dir, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	command("..", "git", "clone", "--quiet", ".", dir)
	command(dir, "git", "remote", "set-url", "origin", "https://github.com/org/ralph-action.git")
	// Material lists are made by a program that takes as long to build as all of this.
	command(dir, tool, "release", "--snapshot", "--clean", "--skip=publish,sbom")

	var made struct{ Version, Commit string }
	b, err := os.ReadFile(filepath.Join(dir, "dist", "metadata.json"))
	if err == nil {
		err = json.Unmarshal(b, &made)
	}
	if err != nil || made.Version == "" || made.Commit == "" {
		t.Fatalf("%v, %+v", err, made)
	}
	s := newSetUp(t)
	r := s.serve()
	for _, name := range []string{
		"checksums.txt", "linux_amd64.tar.gz", "linux_arm64.tar.gz", "darwin_amd64.tar.gz", "darwin_arm64.tar.gz",
	} {
		if name != "checksums.txt" {
			name = "ralph-bot_" + made.Version + "_" + name
		}
		content, err := os.ReadFile(filepath.Join(dir, "dist", name))
		if err != nil {
			t.Fatal(err)
		}
		r.put("/v"+made.Version+"/"+name, content)
	}
	s.program("gh", "exit 0")
	s.write(s.path("action/VERSION"), made.Version+"\n")
	s.env["ACTION_REF"] = "v1"
	code, said, outputs := s.run()
	if code != 0 || outputs["bot"] == "" {
		t.Fatalf("exit code %d, outputs %v:\n%s", code, outputs, said)
	}
	if out := command(dir, outputs["bot"], "version", "--json"); !strings.Contains(out, `"`+made.Commit+`"`) ||
		!strings.Contains(out, `"v`+made.Version+`"`) {
		t.Errorf("of %+v the program says %s", made, out)
	}
	list := "\n" + command(dir, "tar", "-tzf", filepath.Join("dist", "ralph-bot_"+made.Version+"_linux_amd64.tar.gz")) + "\n"
	for _, name := range []string{"ralph-bot", "LICENSE", "README.md", "CHANGELOG.md"} {
		if !strings.Contains(list, "\n"+name+"\n") {
			t.Errorf("%s is missing in%s", name, list)
		}
	}
}
