package ghapp

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-github/v60/github"
)

const (
	modeFile       = "100644"
	modeExecutable = "100755"
)

// Ref is where a branch points.
type Ref struct{ OID, TreeOID string }

// Branch reads a branch; one that is not there is ErrNotFound.
func (r *Repo) Branch(ctx context.Context, name string) (Ref, error) {
	// go-github's GetBranch answers with an untyped error.
	var b github.Branch
	path := fmt.Sprintf("repos/%s/%s/branches/%s", r.owner, r.name, url.PathEscape(name))
	if err := r.get(ctx, "read branch", path, &b); err != nil {
		return Ref{}, err
	}
	return Ref{OID: b.GetCommit().GetSHA(), TreeOID: b.GetCommit().GetCommit().GetTree().GetSHA()}, nil
}

// CreateBranch makes a branch at oid; one that is already there is ErrExists,
// wherever it points.
func (r *Repo) CreateBranch(ctx context.Context, name, oid string) error {
	ref := "refs/heads/" + name
	_, _, err := r.writer.Git.CreateRef(ctx, r.owner, r.name,
		&github.Reference{Ref: &ref, Object: &github.GitObject{SHA: &oid}})
	err = wrap("create branch", err)
	if e, ok := errors.AsType[*Error](err); ok && e.Class == Invalid && strings.Contains(e.Message, "already exists") {
		return fmt.Errorf("%w: %w", ErrExists, err)
	}
	return err
}

// Commit is one commit as GitHub has it.
type Commit struct {
	OID, TreeOID string
	Parents      []string
	Message      string
	// Verified: GitHub itself says the signature is good.
	Verified bool
	// VerifyReason is GitHub's word for it: "valid", "unsigned", …
	VerifyReason string
	// Author is the GitHub user of the author's mail address, the zero value where
	// there is none. Anyone who can push can write any address: it means something
	// only together with Verified.
	Author User
}

// Commit reads a commit by its full object id.
func (r *Repo) Commit(ctx context.Context, oid string) (Commit, error) {
	// One file per page: the list of files is of no use here and may be long.
	c, _, err := r.reader.Repositories.GetCommit(ctx, r.owner, r.name, oid, &github.ListOptions{PerPage: 1})
	if err != nil {
		return Commit{}, wrap("read commit", err)
	}
	inner := c.GetCommit()
	out := Commit{
		OID: c.GetSHA(), TreeOID: inner.GetTree().GetSHA(), Message: inner.GetMessage(),
		Verified: inner.GetVerification().GetVerified(), VerifyReason: inner.GetVerification().GetReason(),
		Author: user(c.GetAuthor()),
	}
	for _, p := range c.Parents {
		out.Parents = append(out.Parents, p.GetSHA())
	}
	return out, nil
}

// FileAddition is a file to write whole.
type FileAddition struct {
	Path    string
	Content []byte
	// Executable matters to CreateCommitGitData only: the mutation keeps the
	// mode of a file that exists and makes every new file plain.
	Executable bool
}

// CommitInput is one commit on top of a branch.
type CommitInput struct {
	Branch string
	// ExpectedHead is the object id the branch must point at.
	ExpectedHead string
	Headline     string
	Body         string
	Additions    []FileAddition
	Deletions    []string
}

// CreateCommit commits through createCommitOnBranch: GitHub signs it and the
// App's bot user is its author. It moves the branch. A branch that is not at
// in.ExpectedHead is ErrStale; so is now and then one that is, while GitHub's
// read replicas lag. After an error of class Transient the commit may be there.
//
// The mutation cannot express new executables, symbolic links or submodules:
// see CreateCommitGitData.
func (r *Repo) CreateCommit(ctx context.Context, in CommitInput) (Commit, error) {
	type addition struct {
		Path     string `json:"path"`
		Contents []byte `json:"contents"` // base64, as encoding/json does
	}
	type deletion struct {
		Path string `json:"path"`
	}
	additions := make([]addition, 0, len(in.Additions))
	for _, a := range in.Additions {
		contents := a.Content
		if contents == nil {
			contents = []byte{} // nil would encode as null
		}
		additions = append(additions, addition{Path: a.Path, Contents: contents})
	}
	deletions := make([]deletion, 0, len(in.Deletions))
	for _, path := range in.Deletions {
		deletions = append(deletions, deletion{Path: path})
	}
	var made struct {
		Commit struct {
			OID       string               `json:"oid"`
			Tree      struct{ OID string } `json:"tree"`
			Signature *struct {
				IsValid           bool   `json:"isValid"`
				WasSignedByGitHub bool   `json:"wasSignedByGitHub"`
				State             string `json:"state"`
			} `json:"signature"`
		} `json:"commit"`
	}
	const op = "create commit"
	err := r.mutate(ctx, op, "CreateCommitOnBranch",
		"commit { oid tree { oid } signature { isValid wasSignedByGitHub state } }", map[string]any{
			"branch":          map[string]any{"repositoryNameWithOwner": r.FullName(), "branchName": in.Branch},
			"expectedHeadOid": in.ExpectedHead,
			"message":         map[string]any{"headline": in.Headline, "body": in.Body},
			"fileChanges":     map[string]any{"additions": additions, "deletions": deletions},
		}, &made)
	if err != nil {
		return Commit{}, err
	}
	c := made.Commit
	if c.OID == "" {
		return Commit{}, &Error{Op: op, Class: Transient, Message: "GitHub gave neither a commit nor an error"}
	}
	out := Commit{
		OID: c.OID, TreeOID: c.Tree.OID, Parents: []string{in.ExpectedHead}, Message: message(in), VerifyReason: "unsigned",
	}
	if s := c.Signature; s != nil {
		out.Verified = s.IsValid && s.WasSignedByGitHub
		out.VerifyReason = strings.ToLower(s.State)
	}
	return out, nil
}

func message(in CommitInput) string {
	if in.Body == "" {
		return in.Headline
	}
	return in.Headline + "\n\n" + in.Body
}

// GitDataInput is a commit made of git objects.
type GitDataInput struct {
	CommitInput
	// BaseTree is a tree to start from; Tree is what must come out.
	BaseTree, Tree string
}

// CreateCommitGitData commits through the git database: for modes that
// createCommitOnBranch cannot express. The branch moves last, without force,
// and only after GitHub has said that the tree is in.Tree (else
// ErrTreeMismatch) and that it signed the commit (else ErrUnverified); before
// that nothing is visible to anyone. A branch that moved meanwhile is ErrStale.
func (r *Repo) CreateCommitGitData(ctx context.Context, in GitDataInput) (Commit, error) {
	entries := make([]*github.TreeEntry, 0, len(in.Additions)+len(in.Deletions))
	for _, a := range in.Additions {
		blob, _, err := r.writer.Git.CreateBlob(ctx, r.owner, r.name, &github.Blob{
			Content: github.String(base64.StdEncoding.EncodeToString(a.Content)), Encoding: github.String("base64"),
		})
		if err != nil {
			return Commit{}, wrap("create blob", err)
		}
		mode := modeFile
		if a.Executable {
			mode = modeExecutable
		}
		entries = append(entries, &github.TreeEntry{
			Path: github.String(a.Path), Mode: &mode, Type: github.String("blob"), SHA: blob.SHA,
		})
	}
	for _, path := range in.Deletions {
		entries = append(entries, &github.TreeEntry{
			Path: github.String(path), Mode: github.String(modeFile), Type: github.String("blob"),
		})
	}
	tree, _, err := r.writer.Git.CreateTree(ctx, r.owner, r.name, in.BaseTree, entries)
	if err != nil {
		return Commit{}, wrap("create tree", err)
	}
	if tree.GetSHA() != in.Tree {
		return Commit{}, fmt.Errorf("create tree: got %s, want %s: %w", tree.GetSHA(), in.Tree, ErrTreeMismatch)
	}
	commit := &github.Commit{
		Message: github.String(message(in.CommitInput)), Tree: tree,
		Parents: []*github.Commit{{SHA: github.String(in.ExpectedHead)}},
	}
	// No author, no committer: only then does GitHub sign for the App.
	made, _, err := r.writer.Git.CreateCommit(ctx, r.owner, r.name, commit, nil)
	if err != nil {
		return Commit{}, wrap("create commit object", err)
	}
	out := Commit{
		OID: made.GetSHA(), TreeOID: tree.GetSHA(), Parents: []string{in.ExpectedHead}, Message: message(in.CommitInput),
		Verified: made.GetVerification().GetVerified(), VerifyReason: made.GetVerification().GetReason(),
	}
	if !out.Verified {
		return out, fmt.Errorf("create commit object: %w (%s)", ErrUnverified, oneLine(out.VerifyReason))
	}
	req, err := r.writer.NewRequest(http.MethodPatch,
		fmt.Sprintf("repos/%s/%s/git/refs/heads/%s", r.owner, r.name, escapePath(in.Branch)),
		map[string]any{"sha": out.OID, "force": false})
	if err != nil {
		return Commit{}, fmt.Errorf("move branch: %w", err)
	}
	_, err = r.writer.Do(ctx, req, nil)
	err = wrap("move branch", err)
	if e, ok := errors.AsType[*Error](err); ok && e.Class == Invalid &&
		strings.Contains(strings.ToLower(e.Message), "fast forward") {
		e.Class = Stale
	}
	return out, err
}

// escapePath escapes each segment of a branch name.
func escapePath(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}
