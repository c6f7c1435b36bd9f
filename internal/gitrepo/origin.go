package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Branches are those of the person's repository.
type Branches struct {
	// Here are the tips of their own branches, Origin of those that origin had when
	// they last fetched.
	Here, Origin map[string]OID
	// Head is the branch of origin that origin/HEAD stands for: its default branch at
	// the time of the clone, say. "" where that is not set, or its branch is gone.
	Head string
	// Tracking has the branches that follow one of origin's which is there.
	Tracking map[string]bool
}

// Tip is the tip of a branch, of the person's own one first; "" for none.
func (b Branches) Tip(name string) OID {
	if at, ok := b.Here[name]; ok {
		return at
	}
	return b.Origin[name]
}

// Branches reads the branches of the person's repository.
func (r *Repo) Branches(ctx context.Context) (Branches, error) {
	const here, origin = "refs/heads/", "refs/remotes/origin/"
	b := Branches{Here: map[string]OID{}, Origin: map[string]OID{}, Tracking: map[string]bool{}}
	listed, err := r.eachRef(ctx, "%(refname)%00%(objectname)%00%(symref)%00%(upstream)", here, origin)
	for _, fields := range listed {
		ref, at, target := fields[0], OID(fields[1]), fields[2]
		name, own := strings.CutPrefix(ref, here)
		switch {
		case own:
			b.Here[name] = at
		case ref == origin+"HEAD":
			b.Head = strings.TrimPrefix(target, origin)
		default:
			b.Origin[strings.TrimPrefix(ref, origin)] = at
		}
	}
	if !ValidBranch(b.Head) {
		b.Head = ""
	}
	for _, fields := range listed {
		followed, ok := strings.CutPrefix(fields[3], origin)
		if name, own := strings.CutPrefix(fields[0], here); own && ok && b.Origin[followed] != "" {
			b.Tracking[name] = true
		}
	}
	return b, err
}

// eachRef lists the refs below prefixes by a format of fields with zero bytes between.
func (r *Repo) eachRef(ctx context.Context, format string, prefixes ...string) (refs [][]string, err error) {
	out, err := r.refs(ctx, call{args: append([]string{"for-each-ref", "--format=" + format}, prefixes...)})
	if err != nil {
		return nil, fmt.Errorf("list refs: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		refs = append(refs, strings.Split(strings.TrimSuffix(line, "\n"), "\x00"))
	}
	return refs, nil
}

// Ref is a ref and the commit it is at.
type Ref struct {
	Name string
	OID  OID
	// When is the commit's date.
	When time.Time
}

// Refs lists the refs below a prefix such as refs/ralph/, in the order of their names.
func (r *Repo) Refs(ctx context.Context, prefix string) (all []Ref, err error) {
	listed, err := r.eachRef(ctx, "%(refname)%00%(objectname)%00%(committerdate:unix)", prefix)
	for _, fields := range listed {
		when, _ := strconv.ParseInt(fields[2], 10, 64) // none of what is no commit
		all = append(all, Ref{Name: fields[0], OID: OID(fields[1]), When: time.Unix(when, 0)})
	}
	return all, err
}

// AskOrigin asks the person's origin for its default branch, with their own git and
// credentials. Nobody is asked for a password. ErrNotFound where there is no origin, or
// it has no such branch; any other error says in a line why it did not answer.
func (r *Repo) AskOrigin(ctx context.Context) (string, error) {
	// What asks the person for nothing is theirs, or ssh as it is: a question that only looks is
	// not worth a password.
	env := []string{"GIT_ASKPASS=" + os.Getenv("GIT_ASKPASS")}
	_, err := r.refs(ctx, call{args: []string{"config", "--get", "core.sshCommand"}, personal: true})
	if exitCode(err) == 1 && os.Getenv("GIT_SSH_COMMAND")+os.Getenv("GIT_SSH") == "" {
		env = append(env, "GIT_SSH_COMMAND=ssh -o BatchMode=yes")
	}
	_, err = r.refs(ctx, call{args: []string{"remote", "get-url", "origin"}, personal: true})
	if exitCode(err) == 2 {
		return "", fmt.Errorf("default branch: there is no origin: %w", ErrNotFound)
	}
	var out []byte
	if err == nil {
		out, err = r.refs(ctx, call{
			args: []string{"ls-remote", "--quiet", "--symref", "origin", "HEAD"}, env: env, personal: true, limit: 64 << 10,
		})
	}
	switch {
	case err == nil:
		return headBranch(string(out))
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	default:
		return "", errors.New(pushReason(stderrOf(err)))
	}
}
