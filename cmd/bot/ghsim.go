package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/org/ralph-action/internal/ghsim"
)

// ghsimCmd is `bot ghsim`.
type ghsimCmd struct {
	Addr string `default:"127.0.0.1:8081" help:"The address to listen on (default: ${default})." placeholder:"HOST:PORT"`
	Dir  string `help:"Directory for its repositories (default: a temporary one)." placeholder:"DIR" type:"path"`
}

// Run serves until a signal.
func (c *ghsimCmd) Run(ctx bound, io stdio) (err error) {
	dir := c.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "ralph-ghsim-"); err != nil {
			return fmt.Errorf("make a directory: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	sim, err := ghsim.New(ghsim.Options{Dir: dir})
	if err != nil {
		return err
	}
	url, err := sim.Start(c.Addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(io.out, "A GitHub is up at %s\n\n  REST     %s/api/v3/\n  GraphQL  %s/api/graphql\n"+
		"  git      %s/OWNER/REPO.git\n  admin    %s/_sim/ (see internal/ghsim/README.md)\n", url, url, url, url, url)
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return sim.Close(stop)
}
