//go:build docker

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/loop"
)

// tasked is a plan with one task for each script, and an agent that runs the
// task's script in its first attempt, and in each writes a file of the task's.
func tasked(scripts []string) (plan, script string) {
	var p, s strings.Builder
	p.WriteString("# Work\n\n")
	s.WriteString("[ $ATTEMPT = 1 ] && case $TASK in\n")
	for i, own := range scripts {
		fmt.Fprintf(&p, "- [ ] Write file %d\n", i+1)
		fmt.Fprintf(&s, "T%d) %s ;;\n", i+1, own)
	}
	s.WriteString("esac\necho $TASK >$TASK.txt\n")
	return p.String(), s.String()
}

// putBack says whether people are told that a change of the task's was put back, with these words
// for the path or the reason.
func (r result) putBack(task, words string) bool {
	return slices.ContainsFunc(r.Findings, func(f findingLine) bool {
		return f.Rule == loop.RuleProtected && strings.Contains(f.Text, " was put back at "+task+" (") && strings.Contains(f.Text, words)
	})
}

// committed lists what is in the last commit of the checkout, as git sees it.
func committed(t *testing.T, dir string) []string {
	t.Helper()
	out, err := gitCommand(t, dir, "ls-tree", "-r", "-z", "--format=%(objectmode) %(path)", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
}

// TestF1ProgressFileReplaced: whatever an agent puts in the place of the
// progress file, the run reads nothing through it, never blocks, and puts the
// file back.
func TestF1ProgressFileReplaced(t *testing.T) {
	t.Parallel()
	variants := []string{
		`rm -f "$PROGRESS"; ln -s /etc/passwd "$PROGRESS"`,
		`rm -f "$PROGRESS"; ln -s ../../plan.md "$PROGRESS"`,
		`rm -f "$PROGRESS"; ln plan.md "$PROGRESS"`,
		`rm -f "$PROGRESS"; mkdir -p "$PROGRESS/x"`,
		`rm -f "$PROGRESS"; mkfifo "$PROGRESS"`,
		`rm -f "$PROGRESS"; truncate -s 5G "$PROGRESS"`,
		`printf '\377\376- [x] T1' >"$PROGRESS"`,
		`chmod 000 "$PROGRESS"`,
		`cp "$PROGRESS" "$(dirname "$PROGRESS")/PROGRESS.md"; rm -f "$PROGRESS"`,
		`rm -rf "$(dirname "$PROGRESS")"`,
	}
	plan, script := tasked(variants)
	dir, got, told := attack(t, plan, script, "--no-gates")
	if len(got.Commits) != len(variants) {
		t.Errorf("%d commits, want %d:\n%s", len(got.Commits), len(variants), told)
	}
	i := slices.IndexFunc(committed(t, dir), func(line string) bool { return strings.HasSuffix(line, "/progress.md") })
	if i < 0 || !strings.HasPrefix(committed(t, dir)[i], "100644 ") {
		t.Errorf("the progress file is no plain file: %v", committed(t, dir))
	}
	wantFile(t, filepath.Join(dir, "plan.md"), strings.ReplaceAll(plan, "[ ]", "[x]"))
}

// TestF2ParentsAreLinks: the directories above the progress file lead elsewhere,
// or to somewhere else each moment.
func TestF2ParentsAreLinks(t *testing.T) {
	t.Parallel()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.Mkdir(victim, 0o777); err != nil { // #nosec G301 -- so that only the defence keeps it clean
		t.Fatal(err)
	}
	plan, script := tasked([]string{
		`rm -rf .ralph; ln -s / .ralph`,
		`d=$(dirname "$PROGRESS"); rm -rf "$d"; ln -s ` + victim + ` "$d"`,
		`(while :; do mv .ralph .r2; ln -s ` + victim + ` .ralph; rm .ralph; mv .r2 .ralph; done) >/dev/null 2>&1 &`,
	})
	_, got, told := attack(t, plan, script, "--no-gates")
	if len(got.Commits) != 3 {
		t.Errorf("%d commits, want 3:\n%s", len(got.Commits), told)
	}
	if left, err := os.ReadDir(victim); err != nil || len(left) != 0 {
		t.Errorf("something was written through a link: %v, %v", left, err)
	}
}

// TestF3NamesAreRefused: links out of the tree and names that mean something else
// elsewhere are refused, by name, and not in any commit.
func TestF3NamesAreRefused(t *testing.T) {
	t.Parallel()
	attacks := []struct{ script, refused string }{
		{`ln -s /etc/passwd escape1`, "escape1"},
		{`ln -s ../../outside escape2`, "escape2"},
		{`mkdir -p sub/.GIT && echo x >sub/.GIT/config`, ".GIT"},
		{`mkdir 'git~1' && echo x >'git~1/config'`, "git~1"},
		{`mkdir "$(printf '.g\342\200\214it')" && echo x >"$(printf '.g\342\200\214it/config')"`, "it"},
		{`echo x >"$(printf 'new\nline')"`, "line"},
	}
	scripts := make([]string, 0, len(attacks))
	for _, a := range attacks {
		scripts = append(scripts, a.script)
	}
	plan, script := tasked(scripts)
	dir, got, told := attack(t, plan, script, "--no-gates")
	if len(got.Commits) != len(attacks) {
		t.Errorf("%d commits, want %d:\n%s", len(got.Commits), len(attacks), told)
	}
	for i, a := range attacks {
		id := fmt.Sprintf("T%d", i+1)
		if !got.putBack(id, a.refused) {
			t.Errorf("%s: nothing says that %q was put back at %s: %+v", a.script, a.refused, id, got.Findings)
		}
	}
	for _, line := range committed(t, dir) {
		if mode, name, _ := strings.Cut(line, " "); mode == "120000" || strings.Contains(strings.ToLower(name), "git") ||
			strings.ContainsAny(name, "\n") {
			t.Errorf("the commit holds %q", line)
		}
	}
}

// TestF4NothingOfTheAgentsIsExecuted: what makes git run commands, in every place
// where an agent could put it.
func TestF4NothingOfTheAgentsIsExecuted(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "executed")
	const config = `mkdir -p $1/hooks $1/info $1/objects/info
for h in pre-commit post-checkout post-commit reference-transaction post-index-change fsmonitor-watchman; do printf '#!/bin/sh\n%s\n' "$evil" >$1/hooks/$h; chmod +x $1/hooks/$h; done
cat >$1/config <<END
[core]
	repositoryformatversion = 0
	fsmonitor = $evil
	hooksPath = $PWD/$1/hooks
	sshCommand = $evil
	pager = $evil
	editor = $evil
[filter "evil"]
	clean = $evil
	smudge = $evil
	required = true
[diff "evil"]
	textconv = $evil
	command = $evil
[alias]
	status = !$evil
[include]
	path = /etc/passwd
END
echo '* filter=evil diff=evil' >$1/info/attributes
echo /etc >$1/objects/info/alternates
echo 'ref: refs/heads/main' >$1/HEAD`
	plan, script := tasked([]string{
		`put .git`,
		`mkdir nested; put nested/.git; echo x >nested/file; rm -rf nested/file`,
		`rm -rf .git; echo "gitdir: /workspace/elsewhere" >.git; put elsewhere; rm -rf elsewhere`,
		`echo '* filter=evil diff=evil' >>.git/info/attributes`,
	})
	script = "evil='touch " + mark + "'\nput() {\n" + config + "\n}\n" + script
	dir, got, told := attack(t, plan, script, "--no-gates")
	if len(got.Commits) != 4 {
		t.Errorf("%d commits, want 4:\n%s", len(got.Commits), told)
	}
	if _, err := os.Lstat(mark); !os.IsNotExist(err) {
		t.Errorf("a command of the agent's was executed on the host: %v", err)
	}
	for _, line := range committed(t, dir) {
		if strings.Contains(line, ".git") {
			t.Errorf("the commit holds %q", line)
		}
	}
}

// TestF5HistoryOfTheAgents: what an agent commits, tags, branches, rewrites or
// points elsewhere in its own repository is nobody's.
func TestF5HistoryOfTheAgents(t *testing.T) {
	t.Parallel()
	dir, got, told := attack(t, onePlan, `export GIT_AUTHOR_NAME=evil GIT_AUTHOR_EMAIL=e@e GIT_COMMITTER_NAME=evil GIT_COMMITTER_EMAIL=e@e
git init -q . 2>/dev/null
echo evil >evil.txt && git add -A && git commit -qm evil && git tag v1 && git branch release && git checkout -q -b main2
git commit -q --amend -m rewritten; git remote add evil https://evil.example/x; git update-ref refs/heads/main HEAD; git config user.name evil
rm evil.txt; echo 1 >one.txt
`, "--no-gates")
	if len(got.Commits) != 1 {
		t.Fatalf("%d commits:\n%s", len(got.Commits), told)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"log", "--format=%an", "main..HEAD"}, "Ada"},
		{[]string{"log", "--format=%s", "main"}, "begin"},
		{[]string{"tag"}, ""},
		{[]string{"branch", "--format=%(refname:short)"}, "main\nwork"},
		{[]string{"remote"}, "origin"},
		{[]string{"config", "user.name"}, "Ada"},
		{[]string{"log", "--all", "--format=%s", "--grep=evil", "--grep=rewritten"}, ""},
	} {
		out, err := gitCommand(t, dir, tt.args...).Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != tt.want {
			t.Errorf("git %v: %q, %v; want %q", tt.args, got, err, tt.want)
		}
	}
}

// TestF6WhatATaskMayBe: a change of nothing is no work; modes, programs and
// binary files are; links, what is too large, and what is no file are put back
// and told by name.
func TestF6WhatATaskMayBe(t *testing.T) {
	t.Parallel()
	plan, script := tasked([]string{
		`exit 0`,
		`chmod +x plan.md`,
		`printf '#!/bin/sh\n' >tool.sh; chmod 755 tool.sh`,
		`ln -s plan.md inside`,
		`head -c 100000 /dev/urandom >image.png`,
		`truncate -s 120M huge.bin`,
		`mkfifo pipe`,
	})
	dir, got, told := attack(t, plan, script, "--no-gates")
	if len(got.Commits) != 7 {
		t.Errorf("%d commits, want 7:\n%s", len(got.Commits), told)
	}
	if !slices.ContainsFunc(got.Attempts, func(l attemptLine) bool {
		return l.Task == "T1" && strings.Contains(l.Note, "disagrees")
	}) {
		t.Errorf("no attempt of T1 was disagreed with: %+v", got.Attempts)
	}
	for id, want := range map[string]string{"T4": "(symbolic link)", "T6": "huge.bin", "T7": "pipe"} {
		if !got.putBack(id, want) {
			t.Errorf("nothing says that %q was put back at %s: %+v", want, id, got.Findings)
		}
	}
	tree := committed(t, dir)
	for _, want := range []string{"100644 plan.md", "100755 tool.sh", "100644 image.png"} {
		if !slices.Contains(tree, want) {
			t.Errorf("the commit lacks %q: %v", want, tree)
		}
	}
	for _, bad := range []string{"inside", "huge.bin", "pipe"} {
		if slices.ContainsFunc(tree, func(line string) bool { return strings.HasSuffix(line, " "+bad) }) {
			t.Errorf("the commit holds %q", bad)
		}
	}
}
