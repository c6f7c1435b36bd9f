package main

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/action"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

// actionCmd is `bot action`: a step of a GitHub Actions workflow. What it is
// asked for comes from the environment; see action.yml.
type actionCmd struct{}

// imageRepository is where releases put the image for sandboxes.
const imageRepository = "ghcr.io/org/ralph-agent"

// releaseImage is the image that belongs to this release, "" where the program is none.
func releaseImage() string {
	v, _ := versionOf()
	if release, ok := strings.CutPrefix(v, "v"); ok && !strings.ContainsAny(release, "-+") {
		return imageRepository + ":" + release
	}
	return ""
}

// Run works the event of the job as its inputs say.
func (c *actionCmd) Run(ctx bound, io stdio) error {
	end, code := action.Run(ctx, action.Program{
		Out: io.out, Self: os.Args[0], Image: releaseImage(), Engine: actionEngine, Screen: actionScreen, OnSave: io.onSave,
	})
	switch {
	case code != run.ExitComplete:
		return ended{code}
	case end == "":
		return nil
	default:
		return exitOf(ctx, end)
	}
}

func actionEngine(ctx context.Context, cfg config.Server, gitHub ghapp.Config, log zerolog.Logger, watch func(run.Event),
	secrets ...string) (action.Engine, error) {
	p, err := newParts(ctx, cfg, gitHub, log, observers{watch: watch}, secrets...)
	if err != nil {
		return action.Engine{}, err
	}
	return action.Engine{GitHub: p.github, Deliveries: p.deliveries, Runs: p.reconcile, Close: p.close}, nil
}

func actionScreen(w io.Writer, mask *redact.Masker) (show func(run.Event), done func()) {
	screen := newLive(w, time.Now, mask)
	return screen.handle, screen.close
}
