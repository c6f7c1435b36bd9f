package ghsim

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// inRepo runs f with a repository looked up.
func inRepo[T any](s *Sim, owner, name string, f func(r *repo) (T, error)) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.repoByName(owner, name)
	if err != nil {
		var none T
		return none, err
	}
	return f(r)
}

// Issue reads an issue; for a pull request see PR.
func (s *Sim) Issue(owner, name string, number int) (Issue, error) {
	return inRepo(s, owner, name, func(r *repo) (Issue, error) {
		i, err := r.numbered(number)
		if err != nil {
			return Issue{}, err
		}
		return s.issueOut(r, i), nil
	})
}

// Issues lists the issues of a repository, pull requests among them, by number.
func (s *Sim) Issues(owner, name string) ([]Issue, error) {
	return inRepo(s, owner, name, func(r *repo) ([]Issue, error) {
		return shapes(r.issues, func(i *issue) Issue { return s.issueOut(r, i) }), nil
	})
}

// PR reads a pull request.
func (s *Sim) PR(owner, name string, number int) (PR, error) {
	return inRepo(s, owner, name, func(r *repo) (PR, error) {
		i, err := r.numbered(number)
		if err != nil {
			return PR{}, err
		}
		if i.pull == nil {
			return PR{}, notFound()
		}
		return s.prOut(r, i)
	})
}

// PRs lists the pull requests of a repository by number.
func (s *Sim) PRs(owner, name string) ([]PR, error) {
	return inRepo(s, owner, name, func(r *repo) ([]PR, error) {
		list := []PR{}
		for _, i := range r.issues {
			if i.pull == nil {
				continue
			}
			pr, err := s.prOut(r, i)
			if err != nil {
				return nil, err
			}
			list = append(list, pr)
		}
		return list, nil
	})
}

// BranchCommits lists the commits of a branch newest first: those that the default branch does not have, or all where
// it is the default branch.
func (s *Sim) BranchCommits(owner, name, branch string) ([]Commit, error) {
	return inRepo(s, owner, name, func(r *repo) ([]Commit, error) {
		tip, err := r.git.branch(branch)
		if err != nil {
			return nil, err
		}
		var exclude []string
		if branch != r.def {
			def, err := r.git.branch(r.def)
			if err != nil {
				return nil, err
			}
			exclude = append(exclude, def)
		}
		commits, err := r.git.log(tip, exclude...)
		return shapes(commits, func(c *commitObject) Commit { return commitOut(r, c) }), err
	})
}

// Branches maps the branches of a repository to their tips.
func (s *Sim) Branches(owner, name string) (map[string]string, error) {
	return inRepo(s, owner, name, func(r *repo) (map[string]string, error) {
		out := map[string]string{}
		for ref, oid := range r.git.refs {
			if branch, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
				out[branch] = oid
			}
		}
		return out, nil
	})
}

// File reads a file at a branch, tag or commit. The error wraps fs.ErrNotExist where there is none.
func (s *Sim) File(owner, name, ref, path string) ([]byte, error) {
	return inRepo(s, owner, name, func(r *repo) ([]byte, error) {
		c, err := r.git.resolve(ref)
		if err != nil {
			return nil, notExist(err)
		}
		data, err := r.git.blobAt(c.OID, path)
		return data, notExist(err)
	})
}

// Files lists every file at a branch, tag or commit with its mode ("100644").
func (s *Sim) Files(owner, name, ref string) (map[string]string, error) {
	return inRepo(s, owner, name, func(r *repo) (map[string]string, error) {
		c, err := r.git.resolve(ref)
		if err != nil {
			return nil, notExist(err)
		}
		files, err := r.git.files(c.Tree)
		out := map[string]string{}
		for path, f := range files {
			out[path] = f.Mode
		}
		return out, err
	})
}

// notExist lets callers ask with fs.ErrNotExist.
func notExist(err error) error {
	if errors.Is(err, errNoObject) {
		return fmt.Errorf("%w: %w", err, fs.ErrNotExist)
	}
	return err
}

// CheckRuns lists the check runs of a repository in the order they were made.
func (s *Sim) CheckRuns(owner, name string) ([]CheckRun, error) {
	return inRepo(s, owner, name, func(r *repo) ([]CheckRun, error) {
		return shapes(r.checks, func(c *checkRun) CheckRun {
			return CheckRun{
				ID: c.id, Name: c.name, HeadOID: c.headOID, ExternalID: c.externalID, Status: c.status, Conclusion: c.conclusion,
				Title: c.title, Summary: c.summary, Text: c.text, Buttons: slices.Clone(c.buttons),
				Annotations: slices.Clone(c.annotations),
			}
		}), nil
	})
}

// Deliveries lists the webhooks of an App in the order they were caused.
func (s *Sim) Deliveries(appID int64) ([]Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.appByID(appID)
	if err != nil {
		return nil, err
	}
	return shapes(a.hook.log, func(d *Delivery) Delivery { return *d }), nil
}

// AllDeliveries lists the webhooks of every App.
func (s *Sim) AllDeliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Delivery{}
	for _, h := range s.hooks {
		for _, d := range h.log {
			list = append(list, *d)
		}
	}
	return list
}

// Redeliver sends a webhook again, with the GUID it had.
func (s *Sim) Redeliver(appID, deliveryID int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.appByID(appID)
	if err != nil {
		return err
	}
	return s.redeliver(a.hook, deliveryID)
}

// CallCounts counts the calls by route ("GET /repos/{owner}/{repo}",
// "mutation createCommitOnBranch").
func (s *Sim) CallCounts() map[string]int {
	out := map[string]int{}
	for _, c := range s.Calls() {
		key := c.Route
		if c.Kind == "rest" {
			key = c.Method + " " + c.Route
		}
		out[key]++
	}
	return out
}

func (s *Sim) issueOut(r *repo, i *issue) Issue {
	return Issue{
		ID: i.id, NodeID: issueNodeID(i), Number: i.number, Title: i.title, Body: i.body, User: i.user.login,
		State: i.state(), URL: s.issuePage(r, i), Reactions: reactionsOut(i.reactions),
		Labels: shapes(i.labels, func(l *label) string { return l.name }), Comments: shapes(i.comments, commentOut),
	}
}

func reactionsOut(rs []*reaction) []Reaction {
	return shapes(rs, func(r *reaction) Reaction { return Reaction{User: r.user.login, Content: r.content} })
}

func commentOut(c *comment) Comment {
	return Comment{
		ID: c.id, User: c.user.login, Body: c.body, Created: c.created,
		Reactions: reactionsOut(c.reactions),
	}
}

func (s *Sim) reviewOut(r *repo, i *issue, rv *review) Review {
	out := Review{
		ID: rv.id, User: rv.user.login, State: rv.state, Body: rv.body, Lines: []ReviewLine{},
		Reactions: reactionsOut(rv.reactions),
	}
	for _, t := range i.pull.threads {
		for _, c := range t.comments {
			if c.review == rv {
				out.Lines = append(out.Lines, ReviewLine{
					ID: c.id, Thread: nodeID("PRRT", t.id), Path: t.path, Line: t.line, StartLine: t.start, Commit: t.commit,
					Body: c.body, User: c.user.login,
					Resolved: t.resolved != nil, Outdated: s.outdated(r, i, t), Reactions: reactionsOut(c.reactions),
				})
			}
		}
	}
	return out
}

func commitOut(r *repo, c *commitObject) Commit {
	return Commit{
		OID: c.OID, Tree: c.Tree, Parents: append([]string{}, c.Parents...), Subject: c.subject(), Body: c.body(),
		Verified: r.signed[c.OID] != nil,
		Author:   c.Author.Name,
	}
}

func (s *Sim) prOut(r *repo, i *issue) (PR, error) {
	p := i.pull
	commits, err := s.pullCommits(r, p)
	if err != nil {
		return PR{}, err
	}
	return PR{
		Issue: s.issueOut(r, i), Draft: p.draft, Merged: p.merged, Head: p.head, HeadOID: p.headOID, Base: p.base,
		Commits: shapes(commits, func(c *commitObject) Commit { return commitOut(r, c) }),
		Reviews: shapes(p.reviews, func(rv *review) Review { return s.reviewOut(r, i, rv) }),
	}, nil
}

// record writes the call log.
func (s *Sim) record(c Call) {
	c.At = s.now()
	s.calls = append(s.calls, c)
}

// pullCommits are the commits of a pull request, oldest first.
func (s *Sim) pullCommits(r *repo, p *pull) ([]*commitObject, error) {
	commits := make([]*commitObject, 0, len(p.commits))
	for _, oid := range p.commits {
		c, err := r.git.commit(oid)
		if err != nil {
			return nil, err
		}
		commits = append(commits, c)
	}
	return commits, nil
}
