package gitrepo

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/proc"
)

// Remote is where a mirror comes from.
type Remote struct {
	// URL is http or https, without a user.
	URL string
	// Auth returns the credential for the next request; nil means none is
	// needed. It is asked each time, since tokens expire. A token that the
	// remote has just refused comes as refused, "" otherwise: another one is
	// tried once, the same one is not.
	Auth func(ctx context.Context, refused string) (user, token string, err error)
}

// OpenMirror opens the bare repository at dir, and makes it where there is
// none yet. It does not fetch.
//
// Fetch keeps refs/heads equal to the remote's, so the host's own refs belong
// elsewhere (refs/ralph/…).
func (g *Git) OpenMirror(dir string, remote Remote) (*Repo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open mirror: %w", err)
	}
	r := &Repo{
		store:  newStore(g, dir, filepath.Join(dir, "objects")),
		gitDir: dir,
		remote: remote,
	}
	if err := makeBare(dir); err != nil {
		return nil, fmt.Errorf("open mirror: %w", err)
	}
	return r, nil
}

// lock takes the mirror's lock, across processes.
func (r *Repo) lock(ctx context.Context) (unlock func(), err error) {
	f, err := proc.LockFile(ctx, r.gitDir+".lock")
	if err != nil {
		return nil, fmt.Errorf("lock mirror: %w", err)
	}
	return func() { _ = f.Close() }, nil
}

// Fetch mirrors all branches, and prunes what is gone there; where refs are named in full, it
// brings what these are at, and moves none here.
// ErrUnauthorized where the credential is missing or refused; ErrNotFound
// where the remote has no such repository (which is also GitHub's answer to a
// credential that may not see it) or ref.
func (r *Repo) Fetch(ctx context.Context, refs ...string) error {
	if r.remote.URL == "" {
		return errors.New("fetch: the repository has no remote")
	}
	for _, ref := range refs {
		if !ValidRef(ref) {
			return fmt.Errorf("fetch: %s is not a full ref name", quote(ref))
		}
	}
	if len(refs) == 0 {
		refs = []string{"+refs/heads/*:refs/heads/*"}
	}
	unlock, err := r.lock(ctx)
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	defer unlock()
	args := []string{
		"fetch", "--quiet", "--prune", "--no-tags", "--no-recurse-submodules",
		"--no-write-fetch-head", "--no-auto-maintenance", "--end-of-options", r.remote.URL,
	}
	if _, err = r.withRemote(ctx, append(args, refs...)); err != nil {
		return errors.Join(err, r.dropUnfinished())
	}
	// What cannot be tidied now is tidied another time: the fetch has worked.
	tidy, cancel := context.WithTimeout(ctx, maxTidy)
	defer cancel()
	_ = r.collectGarbage(tidy, maxMirrorLoose)
	return ctx.Err()
}

// dropUnfinished removes what a fetch has left that did not come to its end. The caller has
// the lock.
func (r *Repo) dropUnfinished() error {
	left, err := filepath.Glob(filepath.Join(r.gitDir, "objects", "pack", "tmp_*"))
	for _, file := range left {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// maxTidy is how long a fetch may wait for its mirror to be packed, maxMirrorLoose about how many
// objects of it are files of their own.
const (
	maxTidy        = 2 * time.Minute
	maxMirrorLoose = 6700
)

// collectGarbage packs a mirror's objects and drops what nothing has needed for
// two weeks, where about so many are files of their own.
func (r *Repo) collectGarbage(ctx context.Context, loose int) error {
	_, err := r.refs(ctx, call{
		args:   []string{"gc", "--auto", "--quiet"},
		config: []string{fmt.Sprintf("gc.auto=%d", loose), "gc.autoDetach=false", "gc.pruneExpire=2.weeks.ago"},
	})
	return err
}

// DefaultBranch returns the branch that clones check out, as the remote of a mirror
// says now. ErrNotFound where it does not tell.
func (r *Repo) DefaultBranch(ctx context.Context) (string, error) {
	out, err := r.withRemote(ctx, []string{"ls-remote", "--quiet", "--symref", "--end-of-options", r.remote.URL, "HEAD"})
	if err != nil {
		return "", err
	}
	return headBranch(string(out))
}

// headBranch reads the answer of git ls-remote --symref. ErrNotFound where it names no
// branch.
func headBranch(answer string) (string, error) {
	for line := range strings.Lines(answer) {
		if rest, ok := strings.CutPrefix(line, "ref: refs/heads/"); ok {
			branch, _, _ := strings.Cut(rest, "\t")
			if ValidBranch(branch) {
				return branch, nil
			}
		}
	}
	return "", fmt.Errorf("default branch: %w", ErrNotFound)
}

// withRemote runs git with the credential, and once more with another one where
// the first is refused: a token may be revoked before its time.
func (r *Repo) withRemote(ctx context.Context, args []string) (out []byte, err error) {
	if r.remote.Auth == nil {
		return r.asUser(ctx, args, "", "")
	}
	last := ""
	for {
		user, token, authErr := r.remote.Auth(ctx, last)
		if authErr != nil {
			return nil, fmt.Errorf("git %s: credential: %w", args[0], authErr)
		}
		if last != "" && token == last {
			return nil, err
		}
		out, err = r.asUser(ctx, args, user, token)
		if last != "" || !errors.Is(err, ErrUnauthorized) {
			return out, err
		}
		last = token
	}
}

// asUser runs git with the credential and the host's proxy settings in its
// environment.
func (r *Repo) asUser(ctx context.Context, args []string, user, token string) ([]byte, error) {
	var env, secrets []string
	for _, key := range []string{
		"http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
	} {
		if v, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+v)
		}
	}
	if token != "" {
		basic := base64.StdEncoding.EncodeToString([]byte(user + ":" + token))
		secrets = []string{basic, token}
		env = append(env,
			"GIT_CONFIG_COUNT=1",
			// The key is bound to the remote's own address.
			"GIT_CONFIG_KEY_0=http."+r.remote.URL+".extraHeader",
			"GIT_CONFIG_VALUE_0=Authorization: Basic "+basic,
		)
	}
	out, err := r.refs(ctx, call{args: args, env: env})
	return out, remoteError(err, secrets)
}

// remoteError classifies what git said, and takes the secrets out of it in
// case a server echoed them.
func remoteError(err error, secrets []string) error {
	exit, ok := errors.AsType[*proc.ExitError](err)
	if !ok {
		return err
	}
	for _, s := range secrets {
		exit.Stderr = bytes.ReplaceAll(exit.Stderr, []byte(s), []byte("***"))
	}
	for _, c := range []struct {
		text string
		kind error
	}{
		{"could not read Username", ErrUnauthorized},
		{"could not read Password", ErrUnauthorized},
		{"Authentication failed", ErrUnauthorized},
		{"error: 401", ErrUnauthorized},
		{"error: 403", ErrUnauthorized},
		{"' not found", ErrNotFound},
		{"Repository not found", ErrNotFound},
		{"couldn't find remote ref", ErrNotFound},
		{"not our ref", ErrNotFound},
		{"returned error: 5", ErrUnavailable},
		{"Could not resolve", ErrUnavailable},
		{"Failed to connect", ErrUnavailable},
		{"Couldn't connect", ErrUnavailable},
		{"timed out", ErrUnavailable},
		{"Empty reply from server", ErrUnavailable},
		{"Recv failure", ErrUnavailable},
		{"hung up unexpectedly", ErrUnavailable},
		{"RPC failed", ErrUnavailable},
	} {
		if strings.Contains(string(exit.Stderr), c.text) {
			return fmt.Errorf("%w: %w", c.kind, err)
		}
	}
	return err
}
