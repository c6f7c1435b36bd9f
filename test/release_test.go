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
		cmd.Env = append(os.Environ(), "HOMEBREW_TAP_TOKEN=none")
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
	s.env["RALPH_INPUT_VERSION"], s.env["RALPH_INPUT_VERIFY"] = made.Version, "checksum"
	code, said, outputs := s.run()
	if code != 0 || outputs["bot"] == "" {
		t.Fatalf("exit code %d, outputs %v:\n%s", code, outputs, said)
	}
	if out := command(dir, outputs["bot"], "version", "--json"); !strings.Contains(out, `"`+made.Commit+`"`) ||
		!strings.Contains(out, `"v`+made.Version+`"`) {
		t.Errorf("of %+v the program says %s", made, out)
	}
	checkPackages(t, command, dir, made.Version)
	if formula, err := os.ReadFile(filepath.Join(dir, "dist", "homebrew", "Formula", "ralph-bot.rb")); err != nil ||
		!strings.Contains(string(formula), `bin.install "ralph-bot"`) {
		t.Errorf("the formula: %v\n%s", err, formula)
	}
}

// checkPackages: what a person installs has the manual page and completes words.
func checkPackages(t *testing.T, command func(dir, name string, args ...string) string, dir, version string) {
	t.Helper()
	dist := filepath.Join(dir, "dist")
	base := "ralph-bot_" + version + "_linux_amd64"
	for list, want := range map[string][]string{
		command(dist, "tar", "-tzf", base+".tar.gz"): {
			"ralph-bot", "man/ralph-bot.1.gz", "completions/ralph-bot.bash", "completions/_ralph-bot", "completions/ralph-bot.fish",
		},
		command(dist, "dpkg-deb", "--contents", base+".deb"): {
			"./usr/bin/ralph-bot", "./usr/share/man/man1/ralph-bot.1.gz", "./usr/share/bash-completion/completions/ralph-bot",
			"./usr/share/zsh/vendor-completions/_ralph-bot", "./usr/share/fish/vendor_completions.d/ralph-bot.fish",
		},
	} {
		for _, name := range want {
			if !strings.Contains("\n"+list+"\n", name+"\n") {
				t.Errorf("%s is missing in\n%s", name, list)
			}
		}
	}
	unpacked := t.TempDir()
	command(dist, "dpkg-deb", "--extract", base+".deb", unpacked)
	if said := command(unpacked, filepath.Join(unpacked, "usr/bin/ralph-bot"), "--version"); !strings.HasPrefix(said, "ralph-bot v") {
		t.Errorf("the package's program says %q", said)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		if info, err := os.Stat(filepath.Join(dist, "ralph-bot_"+version+"_linux_"+arch+".rpm")); err != nil || info.Size() == 0 {
			t.Errorf("the package for Fedora: %v", err)
		}
	}
}
