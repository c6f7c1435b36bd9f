package ghapp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
)

// maxRelated bounds how many related issues are read of one.
const maxRelated = 200

// RelatedIssue is an issue to which another has a relation. It may be in another
// repository.
type RelatedIssue struct {
	Issue

	Owner, Repo string
	Author      Person
	UpdatedAt   time.Time
	// OpenSubIssues is how many sub-issues of it are open.
	OpenSubIssues int
}

// BlockedBy lists the issues that an issue is marked as blocked by, open or not. A GitHub
// that knows no such relation has none.
func (r *Repo) BlockedBy(ctx context.Context, n int) ([]RelatedIssue, error) {
	return r.related(ctx, "list what blocks an issue", n, "dependencies/blocked_by")
}

// SubIssues lists the sub-issues of an issue, open or not, in the order that people gave
// them. A GitHub that knows no such relation has none.
func (r *Repo) SubIssues(ctx context.Context, n int) ([]RelatedIssue, error) {
	return r.related(ctx, "list sub-issues", n, "sub_issues")
}

// related reads a list of issues that go-github v60 does not know.
func (r *Repo) related(ctx context.Context, op string, n int, relation string) ([]RelatedIssue, error) {
	var out []RelatedIssue
	for page := 1; len(out) < maxRelated; page++ {
		var found []struct {
			github.Issue

			Summary struct {
				Total     int `json:"total"`
				Completed int `json:"completed"`
			} `json:"sub_issues_summary"`
		}
		path := fmt.Sprintf("repos/%s/%s/issues/%d/%s?per_page=%d&page=%d", url.PathEscape(r.owner),
			url.PathEscape(r.name), n, relation, pageSize, page)
		req, err := r.reader.NewRequest(http.MethodGet, path, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		resp, err := r.reader.Do(ctx, req, &found)
		if err = wrap(op, err); errors.Is(err, ErrNotFound) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		for i := range found {
			f := &found[i]
			out = append(out, RelatedIssue{
				Issue: issue(&f.Issue), Author: person(f.GetUser()), UpdatedAt: f.GetUpdatedAt().UTC(),
				OpenSubIssues: f.Summary.Total - f.Summary.Completed,
			})
			last := &out[len(out)-1]
			last.Owner, last.Repo = repositoryOf(f.GetRepositoryURL())
		}
		if resp.NextPage == 0 {
			break
		}
	}
	return out, nil
}

// repositoryOf reads owner and name from the API's address of a repository.
func repositoryOf(address string) (owner, name string) {
	parts := strings.Split(strings.TrimSuffix(address, "/"), "/")
	if len(parts) < 2 {
		return "", ""
	}
	return parts[len(parts)-2], parts[len(parts)-1]
}
