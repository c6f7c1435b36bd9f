package ghapp_test

import (
	"errors"
	"testing"

	"github.com/org/ralph-action/internal/ghapp"
)

// With a job's token nothing is minted, and what the token does not allow is
// refused once, not tried for ever.
func TestTokenOfAJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := get[string](t)(w.Token(w.in.ID, nil))
	app := get[*ghapp.App](t)(ghapp.New(ghapp.Config{APIURL: w.URL() + "/api/v3/", Token: token}))
	repo := app.Repo(0, owner, name)

	if p := get[ghapp.Permission](t)(repo.Permission(t.Context(), "mary")); !p.CanWrite {
		t.Errorf("mary: %+v, want write", p)
	}
	if id := get[int64](t)(repo.BotID(t.Context())); id != w.appInfo.BotID {
		t.Errorf("the token is user %d, want %d", id, w.appInfo.BotID)
	}
	head := w.head(t, "main")
	check(t, repo.CreateBranch(t.Context(), "ralph/7", head))
	made := get[ghapp.Commit](t)(repo.CreateCommit(t.Context(), ghapp.CommitInput{
		Branch: "ralph/7", ExpectedHead: head, Headline: "feat: a",
		Additions: []ghapp.FileAddition{{Path: "a", Content: []byte("a\n")}},
	}))
	if !made.Verified {
		t.Errorf("%+v is not verified", made)
	}
	if user, password, err := repo.GitAuth(t.Context(), ""); user != "x-access-token" || password != token || err != nil {
		t.Errorf("GitAuth: %q, the token: %v, %v", user, password == token, err)
	}
	if n := app.Calls().ByPurpose["token"]; n != 0 {
		t.Errorf("%d tokens minted", n)
	}
	if _, err := app.Self(t.Context()); err == nil {
		t.Error("Self: no error, though no App is known")
	}

	w.ExpireTokens()
	before := len(w.Calls())
	_, err := repo.Permission(t.Context(), "mary")
	if e, ok := errors.AsType[*ghapp.Error](err); !ok || e.Class != ghapp.Unauthorised {
		t.Errorf("with a token that has ended: %v, want Unauthorised", err)
	}
	if n := len(w.Calls()) - before; n != 1 {
		t.Errorf("a refused token was sent %d times, want once", n)
	}
}
