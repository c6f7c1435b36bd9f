package ghaction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// TakeOver removes from the git configuration of the checkout at dir whatever
// gives access to something: headers and cookies for requests, credential
// helpers, commands, included files (which are deleted if they are below temp:
// that is where actions/checkout keeps tokens), and passwords in addresses. It
// says which settings it took away; none is an answer, and so is no checkout.
//
// Nobody in the run needs them: the host fetches with its own token, and agents
// see no .git of ours.
func TakeOver(ctx context.Context, dir, temp string) (removed []string, err error) {
	gitDir := filepath.Join(dir, ".git")
	info, err := os.Lstat(gitDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the checkout: %w", err)
	}
	if !info.IsDir() {
		return nil, &run.UserError{
			Message: gitDir + " is not a directory, so the credentials in the checkout cannot be removed",
			Hint:    "use actions/checkout, or no checkout at all: the action fetches the repository itself",
		}
	}
	git, err := proc.Look("git")
	if err != nil {
		return nil, &run.UserError{Message: "git is not installed", Hint: "install git 2.39 or newer", Err: err}
	}
	files, err := configFiles(gitDir)
	if err != nil {
		return nil, err
	}
	c := cleaner{git: git, temp: temp}
	for _, file := range files {
		if err := c.clean(ctx, file); err != nil {
			return nil, err
		}
	}
	slices.Sort(c.removed)
	return slices.Compact(c.removed), nil
}

// configFiles are the configurations of a repository and of its submodules.
func configFiles(gitDir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(gitDir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "objects" || d.Name() == "refs" || d.Name() == "logs") && filepath.Dir(path) == gitDir:
			return filepath.SkipDir
		case d.Name() != "config" && d.Name() != "config.worktree":
		case d.Type().IsRegular():
			files = append(files, path)
		case !d.IsDir():
			return fmt.Errorf("%s is not a regular file", path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look through the checkout: %w", err)
	}
	return files, nil
}

// grants matches settings that give access, whatever their value.
var grants = strs.Lazy(`^(http(\..*)?\.(extraheader|cookiefile|sslkey)|credential(\..*)?\.[^.]*|core\.(askpass|sshcommand|gitproxy)|include\.path|includeif\..*\.path)$`)

// login matches a name or password in an address.
var login = strs.Lazy(`://[^/@\s]+@`)

type cleaner struct {
	git, temp string
	removed   []string
}

func (c *cleaner) config(ctx context.Context, file string, args ...string) ([]byte, error) {
	res, err := proc.Run(ctx, proc.Cmd{
		Path: c.git, Args: append([]string{"config", "--file", file, "--no-includes"}, args...), Dir: "/",
		Env: append(proc.ScrubbedEnv(), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull),
	})
	return res.Stdout, err
}

func (c *cleaner) clean(ctx context.Context, file string) error {
	out, err := c.config(ctx, file, "--null", "--list")
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	for setting := range bytes.SplitSeq(out, []byte{0}) {
		key, value, _ := strings.Cut(string(setting), "\n")
		switch {
		case key == "":
			continue
		case strings.HasPrefix(key, "remote.") && strings.HasSuffix(key, "url") && login().MatchString(value):
			// The address itself is of use to later steps. Which of several it is
			// does not matter: they are all looked at.
			if err := c.bare(ctx, file, key, value); err != nil {
				return err
			}
		case grants().MatchString(key), login().MatchString(key), login().MatchString(value):
			if strings.HasPrefix(key, "include") {
				if err := c.included(file, value); err != nil {
					return err
				}
			}
			if err := c.unset(ctx, file, key); err != nil {
				return err
			}
		default:
			continue
		}
		c.removed = append(c.removed, login().ReplaceAllString(key, "://"))
	}
	return nil
}

// unset takes a setting away; one that is gone by now is fine.
func (c *cleaner) unset(ctx context.Context, file, key string) error {
	_, err := c.config(ctx, file, "--unset-all", key)
	const notThere = 5
	if exit, ok := errors.AsType[*proc.ExitError](err); ok && exit.Code == notThere {
		return nil
	}
	if err != nil {
		return fmt.Errorf("take %s out of %s: %w", login().ReplaceAllString(key, "://"), file, err)
	}
	return nil
}

// bare writes an address without who logs in there.
func (c *cleaner) bare(ctx context.Context, file, key, value string) error {
	if err := c.unset(ctx, file, key); err != nil {
		return err
	}
	u, err := url.Parse(value)
	if err != nil {
		return nil //nolint:nilerr // an address nobody can use is better gone
	}
	u.User = nil
	if _, err := c.config(ctx, file, "--add", key, u.String()); err != nil {
		return fmt.Errorf("write %s of %s: %w", key, file, err)
	}
	return nil
}

// included deletes a file that was included, if it lies in the job's own
// directory for temporary files. Others are left alone: nobody reads them any
// more by way of this checkout.
func (c *cleaner) included(file, path string) error {
	if c.temp == "" {
		return nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	rel, err := filepath.Rel(c.temp, path)
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return nil //nolint:nilerr // it lies elsewhere
	}
	root, err := os.OpenRoot(c.temp)
	if err != nil {
		return fmt.Errorf("open the temporary directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := root.Remove(rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete the file with the checkout's credentials: %w", err)
	}
	return nil
}
