package ghapp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
)

// TestRelations: relations are read in people's order, also those to an issue of another
// repository that the App can see, and an issue without any has none.
func TestRelations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	get[ghsim.Repo](t)(w.CreateRepo(owner, "tools", ghsim.RepoOptions{Files: map[string]string{"a": "a"}}))
	for _, title := range []string{"Parent", "First", "Second"} {
		get[ghsim.Issue](t)(w.CreateIssue(owner, name, "mary", title, "Text"))
	}
	get[ghsim.Issue](t)(w.CreateIssue(owner, "tools", owner, "Elsewhere", ""))
	check(t, w.AddSubIssue(owner, name, 1, "mary", owner, name, 3))
	check(t, w.AddSubIssue(owner, name, 1, "mary", owner, name, 2))
	check(t, w.AddSubIssue(owner, name, 1, "mary", owner, "tools", 1))
	check(t, w.BlockIssue(owner, name, 3, "mary", owner, name, 2))
	check(t, w.CloseIssue(owner, name, 2, "mary"))

	type seen struct {
		Repo, Title, State, Author string
		Number, Open               int
	}
	read := func(list []ghapp.RelatedIssue, err error) (out []seen) {
		check(t, err)
		for _, i := range list {
			out = append(out, seen{i.Owner + "/" + i.Repo, i.Title, i.State, i.Author.Login, i.Number, i.OpenSubIssues})
		}
		return out
	}
	if diff := cmp.Diff([]seen{
		{"acme/widgets", "Second", "open", "mary", 3, 0}, {"acme/widgets", "First", "closed", "mary", 2, 0},
		{"acme/tools", "Elsewhere", "open", "acme", 1, 0},
	}, read(w.repo.SubIssues(t.Context(), 1))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]seen{{"acme/widgets", "First", "closed", "mary", 2, 0}},
		read(w.repo.BlockedBy(t.Context(), 3))); diff != "" {
		t.Error(diff)
	}
	if got := read(w.repo.BlockedBy(t.Context(), 2)); got != nil {
		t.Errorf("blocked by %+v", got)
	}
}
