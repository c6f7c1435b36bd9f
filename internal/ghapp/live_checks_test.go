package ghapp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
)

// liveTarget is an App on a repository of which docs/security.md is found out.
// Branches, a pull request and comments are left behind.
type liveTarget struct {
	app    *ghapp.App
	repo   *ghapp.Repo
	base   string // the default branch
	branch string // a name that nothing has there
	// files and bytes are how much one commit is to hold.
	files, bytes int
	// converse has somebody begin a conversation on line 1 of live-check.txt in a
	// pull request.
	converse func(ctx context.Context, t *testing.T, pr int, head string)
	// patience bounds the wait for what GitHub does later.
	patience time.Duration
}

// liveChecks are the beliefs that one App can settle.
func liveChecks(t *testing.T, l liveTarget) {
	ctx := t.Context()
	main := get[ghapp.Ref](t)(l.repo.Branch(ctx, l.base))
	check(t, l.repo.CreateBranch(ctx, l.branch+"-git", main.OID))
	check(t, l.repo.CreateBranch(ctx, l.branch, main.OID))
	file := []ghapp.FileAddition{{Path: "live-check.txt", Content: []byte("one\n")}}
	in := ghapp.CommitInput{
		Branch: l.branch, ExpectedHead: main.OID, Headline: "Check what GitHub does", Additions: file,
	}
	first := get[ghapp.Commit](t)(l.repo.CreateCommit(ctx, in))
	pr := get[ghapp.PR](t)(l.repo.CreatePR(ctx, ghapp.PRInput{
		Title: "What GitHub does", Head: l.branch, Base: l.base, Body: "A check. Close it.",
	}))

	t.Run("commits are verified", func(t *testing.T) {
		if !first.Verified {
			t.Errorf("createCommitOnBranch: %s", first.VerifyReason)
		}
		in := in
		in.Branch += "-git"
		made, err := l.repo.CreateCommitGitData(ctx,
			ghapp.GitDataInput{CommitInput: in, BaseTree: main.TreeOID, Tree: first.TreeOID})
		if err != nil || !made.Verified {
			t.Errorf("the git database: %s, %v", made.VerifyReason, err)
		}
	})
	t.Run("a large commit is taken", func(t *testing.T) {
		in := ghapp.CommitInput{Branch: l.branch, ExpectedHead: first.OID, Headline: "Check how much GitHub takes"}
		for i := range l.files {
			in.Additions = append(in.Additions, ghapp.FileAddition{
				Path: fmt.Sprintf("live-check/%d.txt", i), Content: bytes.Repeat([]byte{'a' + byte(i%26)}, l.bytes/l.files),
			})
		}
		if _, err := l.repo.CreateCommit(ctx, in); err != nil {
			t.Errorf("%d files of %d bytes together: %v", l.files, l.bytes, err)
		}
	})
	t.Run("a conversation can be resolved", func(t *testing.T) {
		l.converse(ctx, t, pr.Number, first.OID)
		conv := get[ghapp.Conversation](t)(l.repo.Conversation(ctx, pr.Number))
		if len(conv.Threads) != 1 {
			t.Fatalf("%d conversations", len(conv.Threads))
		}
		if err := l.repo.ResolveThread(ctx, conv.Threads[0].ID); err != nil {
			t.Error(err)
		}
		if conv = get[ghapp.Conversation](t)(l.repo.Conversation(ctx, pr.Number)); !conv.Threads[0].Resolved {
			t.Error("it is still open")
		}
	})
	t.Run("texts have bounds", func(t *testing.T) {
		body := func(n int) error {
			text := strings.Repeat("é", n)
			_, err := l.repo.Comment(ctx, pr.Number, text)
			return errors.Join(err, l.repo.UpdatePR(ctx, pr.Number, text))
		}
		const most = 65536 // characters
		if err := body(most); err != nil {
			t.Errorf("%d are refused: %v", most, err)
		}
		err := body(most + 1)
		if err == nil {
			t.Errorf("%d are taken", most+1)
		}
		t.Logf("GitHub says %v", err)
	})
	t.Run("a redelivery has the first GUID", func(t *testing.T) {
		attempts := get[[]ghapp.Attempt](t)(l.app.Attempts(ctx, time.Now().Add(-72*time.Hour)))
		if len(attempts) == 0 {
			t.Fatal("GitHub has sent the App no webhook within three days: give it an address for webhooks, any will do, and label an issue")
		}
		first := attempts[0]
		check(t, l.app.Redeliver(ctx, first.ID))
		ctx, cancel := context.WithTimeout(ctx, l.patience)
		defer cancel()
		tick := time.NewTicker(l.patience / 60)
		defer tick.Stop()
		for {
			for _, a := range get[[]ghapp.Attempt](t)(l.app.Attempts(ctx, first.At)) {
				if a.ID != first.ID && a.GUID == first.GUID {
					return
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("no attempt with the GUID of the first within %v", l.patience)
			}
		}
	})
}

// TestLiveChecks plays them on the simulated GitHub, so that they are known to
// work.
func TestLiveChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	check(t, w.SetHook(w.appInfo.ID, w.URL()+"/nobody-listens-here", ""))
	issue := get[ghsim.Issue](t)(w.CreateIssue(owner, name, "walt", "Hello", ""))
	check(t, w.AddLabel(owner, name, issue.Number, "walt", "ralph"))
	check(t, w.WaitIdle(t.Context()))
	liveChecks(t, liveTarget{
		app: w.app, repo: w.repo, base: "main", branch: "live-check", files: 50, bytes: 1 << 20, patience: time.Minute,
		converse: func(_ context.Context, t *testing.T, pr int, _ string) {
			get[ghsim.Review](t)(w.Review(owner, name, pr, "walt", "COMMENTED", "",
				ghsim.ReviewLine{Path: "live-check.txt", Line: 1, Body: "Hm."}))
		},
	})
}
