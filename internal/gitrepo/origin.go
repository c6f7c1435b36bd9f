package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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
	out, err := r.refs(ctx, call{
		args: []string{"for-each-ref", "--format=%(refname)%00%(objectname)%00%(symref)%00%(upstream)", here, origin},
	})
	if err != nil {
		return b, fmt.Errorf("list branches: %w", err)
	}
	upstreams := map[string]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		if len(fields) != 4 {
			return b, fmt.Errorf("list branches: git answered %s", quote(line))
		}
		ref, at, target, upstream := fields[0], OID(fields[1]), fields[2], fields[3]
		if name, ok := strings.CutPrefix(ref, here); ok {
			b.Here[name], upstreams[name] = at, upstream
			continue
		}
		switch name := strings.TrimPrefix(ref, origin); name {
		case "HEAD":
			if branch, ok := strings.CutPrefix(target, origin); ok && ValidBranch(branch) {
				b.Head = branch
			}
		default:
			b.Origin[name] = at
		}
	}
	for name, upstream := range upstreams {
		if followed, ok := strings.CutPrefix(upstream, origin); ok && b.Origin[followed] != "" {
			b.Tracking[name] = true
		}
	}
	return b, nil
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
	out, err := r.refs(ctx, call{
		args: []string{"for-each-ref", "--format=%(refname)%00%(objectname)%00%(committerdate:unix)", prefix},
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		if len(fields) != 3 {
			return nil, fmt.Errorf("list %s: git answered %s", prefix, quote(line))
		}
		when, _ := strconv.ParseInt(fields[2], 10, 64) // none of what is no commit
		all = append(all, Ref{Name: fields[0], OID: OID(fields[1]), When: time.Unix(when, 0)})
	}
	return all, nil
}

// AskOrigin asks the person's origin for its default branch, with their own git and
// credentials. Nobody is asked for a password. ErrNotFound where there is no origin, or
// it has no such branch; any other error says in a line why it did not answer.
func (r *Repo) AskOrigin(ctx context.Context) (string, error) {
	remotes, err := r.remotes(ctx)
	if err != nil {
		return "", err
	}
	if !slices.Contains(remotes, "origin") {
		return "", fmt.Errorf("default branch: there is no origin: %w", ErrNotFound)
	}
	env, err := r.unasking(ctx)
	if err != nil {
		return "", err
	}
	out, err := r.refs(ctx, call{
		args: []string{"ls-remote", "--quiet", "--symref", "origin", "HEAD"}, env: env, personal: true, limit: 64 << 10,
	})
	switch {
	case err == nil:
		return headBranch(string(out))
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	default:
		return "", errors.New(pushReason(stderrOf(err)))
	}
}

// unasking is the environment in which ssh and git's helpers ask a person for nothing:
// a question that only looks is not worth a password. What the person has set up to
// answer in their place stays.
func (r *Repo) unasking(ctx context.Context) ([]string, error) {
	var env []string
	if _, ok := os.LookupEnv("GIT_ASKPASS"); !ok {
		env = append(env, "GIT_ASKPASS=")
	}
	for _, name := range []string{"GIT_SSH_COMMAND", "GIT_SSH"} {
		if os.Getenv(name) != "" {
			return env, nil
		}
	}
	_, err := r.refs(ctx, call{args: []string{"config", "--get", "core.sshCommand"}, personal: true})
	switch {
	case exitCode(err) == 1:
		return append(env, "GIT_SSH_COMMAND=ssh -o BatchMode=yes"), nil
	case err != nil:
		return nil, fmt.Errorf("read core.sshCommand: %w", err)
	}
	return env, nil
}
