package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/history"
	"github.com/org/ralph-action/internal/inline"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// lessonsCmd is `bot lessons`.
type lessonsCmd struct {
	Config string `help:"A server's configuration: show the lessons of its runs in --repo instead." placeholder:"FILE" type:"path"`
	Repo   string `help:"The server's repository to show: owner/name." placeholder:"OWNER/NAME"`
	JSON   bool   `name:"json" help:"Print JSON lines, as stored."`
}

// Run prints the lessons, the oldest first.
func (c *lessonsCmd) Run(ctx bound, io stdio) error {
	if (c.Config == "") != (c.Repo == "") {
		return &run.UserError{
			Message: "--config and --repo belong together",
			Hint:    "pass both for a server's lessons, or neither for this checkout's",
		}
	}
	read := c.checkout
	if c.Config != "" {
		read = c.server
	}
	lessons, err := read(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeLessons(io.out, lessons)
	}
	_, err = fmt.Fprint(forPeople(io.out), lessonsText(lessons))
	return err
}

// checkout gives the lessons of the runs in the checkout around the working
// directory.
func (c *lessonsCmd) checkout(ctx bound) ([]history.Lesson, error) {
	gitPath, err := lookGit()
	if err != nil {
		return nil, err
	}
	git, err := gitrepo.New(gitPath)
	if err != nil {
		return nil, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	data, err := dataDir()
	if err != nil {
		return nil, err
	}
	return inline.Lessons(ctx, git, dir, data)
}

// server gives the lessons that a server keeps of the repository.
func (c *lessonsCmd) server(ctx bound) (lessons []history.Lesson, err error) {
	owner, name, ok := strings.Cut(c.Repo, "/")
	if !ok || owner == "" || name == "" {
		return nil, &run.UserError{
			Message: fmt.Sprintf("%q is not owner/name", c.Repo), Hint: "name the repository as GitHub does",
		}
	}
	cfg, err := config.LoadServer(c.Config, os.LookupEnv, os.ReadFile)
	if err != nil {
		return nil, err
	}
	st, err := openServerStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	node, err := st.RepoNode(ctx, owner, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, &run.UserError{
			Message: "the server had no run in " + c.Repo, Hint: "pass a repository that it has worked in", Err: err,
		}
	}
	if err != nil {
		return nil, err
	}
	return st.AllLessons(ctx, node)
}

// openServerStore opens the database of a server, which has to be there.
func openServerStore(ctx context.Context, cfg config.Server) (*store.Store, error) {
	if _, err := os.Stat(cfg.Database()); err != nil {
		return nil, &run.UserError{
			Message: "no database at " + cfg.Database(), Hint: "run this where the server runs, as its user", Err: err,
		}
	}
	st, err := store.Open(ctx, cfg.Database())
	if err != nil {
		return nil, unusableStore(err)
	}
	return st, nil
}

func writeLessons(w io.Writer, lessons []history.Lesson) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, l := range lessons {
		if err := enc.Encode(l); err != nil {
			return fmt.Errorf("write a lesson: %w", err)
		}
	}
	return nil
}

func lessonsText(lessons []history.Lesson) string {
	if len(lessons) == 0 {
		return "No lessons yet.\n"
	}
	var b strings.Builder
	for _, l := range lessons {
		mark := "✓"
		if !l.Worked {
			mark = "✗"
		}
		fmt.Fprintf(&b, "%s %s  %s\n", mark, l.At.Local().Format("2006-01-02"), run.PrintableLine(l.Sentence()))
	}
	return b.String()
}
