package ghaction

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

const secret = "ghs_0123456789abcdefghijklmnopqrstuvwxyz"

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTakeOverLeavesNoCredential(t *testing.T) {
	t.Parallel()
	dir, temp := t.TempDir(), t.TempDir()
	kept, mine := filepath.Join(t.TempDir(), "own.config"), filepath.Join(temp, "git-credentials-1.config")
	write(t, kept, "[user]\n\tname = x\n")
	write(t, mine, "[http \"https://github.com/\"]\n\textraheader = AUTHORIZATION: basic "+secret+"\n")
	// As actions/checkout leaves it, in its present and in earlier versions, and
	// what else people put there.
	write(t, filepath.Join(dir, ".git", "config"), `[core]
	repositoryformatversion = 0
	sshCommand = ssh -i /tmp/`+secret+`
[remote "origin"]
	url = https://x-access-token:`+secret+`@github.com/org/repo
	fetch = +refs/heads/*:refs/remotes/origin/*
[http "https://github.com/"]
	extraheader = AUTHORIZATION: basic `+secret+`
	extraheader = X: `+secret+`
[http]
	cookieFile = /tmp/`+secret+`
	proxy = http://me:`+secret+`@proxy:3128
[credential]
	helper = "!f() { echo password=`+secret+`; }; f"
[credential "https://github.com"]
	username = `+secret+`
[url "https://`+secret+`@github.com/"]
	insteadOf = https://github.com/
[includeIf "gitdir:`+dir+`/.git"]
	path = `+mine+`
[include]
	path = `+kept+`
[branch "main"]
	remote = origin
`)
	write(t, filepath.Join(dir, ".git", "modules", "lib", "config"), "[http \"https://github.com/\"]\n\textraheader = "+
		secret+"\n")
	write(t, filepath.Join(dir, ".git", "config.worktree"), "[credential]\n\thelper = "+secret+"\n")
	write(t, filepath.Join(dir, ".git", "HEAD"), "ref: refs/heads/main\n")

	removed, err := TakeOver(t.Context(), dir, temp)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"core.sshcommand", "credential.helper", "credential.https://github.com.username", "http.cookiefile",
		"http.https://github.com/.extraheader", "http.proxy",
		"include.path", "includeif.gitdir:" + dir + "/.git.path", "remote.origin.url", "url.https://github.com/.insteadof",
	}
	if diff := cmp.Diff(want, removed); diff != "" {
		t.Error(diff)
	}
	err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), secret) {
			t.Errorf("%s holds the secret, %v:\n%s", path, err, b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mine); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file that was included is there: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("a file that is none of the job's: %v", err)
	}
	// What is of use stays.
	out, err := exec.CommandContext(t.Context(), "git", "config", "--file", filepath.Join(dir, ".git", "config"),
		"--list").Output()
	wantLeft := "core.repositoryformatversion=0\nremote.origin.fetch=+refs/heads/*:refs/remotes/origin/*\nremote.origin.url=https://github.com/org/repo\nbranch.main.remote=origin\n"
	if err != nil || string(out) != wantLeft {
		t.Errorf("left is\n%s\n%v", out, err)
	}
	// Doing it again finds nothing.
	if removed, err := TakeOver(t.Context(), dir, temp); err != nil || len(removed) != 0 {
		t.Errorf("a second time: %v, %v", removed, err)
	}
}

func TestTakeOverOfWhatIsNoCheckout(t *testing.T) {
	t.Parallel()
	if removed, err := TakeOver(t.Context(), t.TempDir(), ""); err != nil || removed != nil {
		t.Errorf("an empty directory: %v, %v", removed, err)
	}
	file := t.TempDir()
	write(t, filepath.Join(file, ".git"), "gitdir: elsewhere\n")
	if _, err := TakeOver(t.Context(), file, ""); !errors.As(err, new(*run.UserError)) {
		t.Errorf("a .git that is a file: %v", err)
	}
	link := t.TempDir()
	write(t, filepath.Join(link, "target"), "")
	if err := os.Mkdir(filepath.Join(link, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../target", filepath.Join(link, ".git", "config")); err != nil {
		t.Fatal(err)
	}
	if _, err := TakeOver(t.Context(), link, ""); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a configuration that is a link: %v", err)
	}
}
