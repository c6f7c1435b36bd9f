package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sim"
)

// simCmd is `bot sim`.
type simCmd struct {
	Seed   uint64   `default:"1" help:"The random seed."`
	Mix    []string `help:"A mix of faults in YAML to use instead of the built-in ones; repeatable; see docs/simulation.md." placeholder:"FILE" type:"existingfile"`
	Runs   int      `help:"Runs of each mix (default: what the mix says)." placeholder:"N"`
	JSON   bool     `name:"json" help:"Print JSON."`
	Update string   `help:"Also write the table into this document." placeholder:"FILE" type:"existingfile"`
}

// Run plays the mixes and says which bars hold.
func (c *simCmd) Run(ctx bound, io stdio) error {
	if c.Runs < 0 {
		return &run.UserError{Message: "--runs must not be negative", Hint: "leave it out for the number the mix names"}
	}
	// A run leaves much garbage and little besides: collecting it less often is a
	// quarter of the time.
	debug.SetGCPercent(400)
	mixes, err := c.mixes()
	if err != nil {
		return err
	}
	results := make([]sim.Result, 0, len(mixes))
	for _, m := range mixes {
		runs := c.Runs
		if runs == 0 {
			runs = m.Runs
		}
		r, err := sim.Run(ctx, m, c.Seed, runs)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	report := sim.Markdown(results)
	if c.Update != "" {
		if err := updateDocument(c.Update, report); err != nil {
			return err
		}
	}
	if c.JSON {
		err = printJSON(io.out, results)
	} else {
		_, err = fmt.Fprint(io.out, report)
	}
	if err != nil {
		return err
	}
	return failedBars(results)
}

func (c *simCmd) mixes() ([]sim.Mix, error) {
	if len(c.Mix) == 0 {
		return sim.BuiltInMixes()
	}
	mixes := make([]sim.Mix, 0, len(c.Mix))
	for _, name := range c.Mix {
		src, err := os.ReadFile(name) // #nosec G304 -- the file that was asked for
		if err != nil {
			return nil, fmt.Errorf("read mix: %w", err)
		}
		m, err := sim.ParseMix(name, src)
		if err != nil {
			return nil, err
		}
		mixes = append(mixes, m)
	}
	return mixes, nil
}

func updateDocument(name, report string) error {
	doc, err := os.ReadFile(name) // #nosec G304 -- the file that was asked for
	if err != nil {
		return fmt.Errorf("read document: %w", err)
	}
	updated, err := sim.Update(string(doc), report)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := os.WriteFile(name, []byte(updated), 0o644); err != nil { // #nosec G306,G703 -- the document that was asked for
		return fmt.Errorf("write document: %w", err)
	}
	return nil
}

// failedBars is an error that lists the bars which do not hold, nil where all do.
func failedBars(results []sim.Result) error {
	var failed []string
	for _, r := range results {
		for _, b := range r.Bars {
			if !b.Held {
				failed = append(failed, fmt.Sprintf("%s: %s: %s, must be %s", r.Mix, b.Name, b.Is, b.Must))
			}
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d bars do not hold:\n  %s", len(failed), strings.Join(failed, "\n  "))
}
