package transcript

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// checkExtension ends the name of an archive of a check.
const checkExtension = ".check"

// Check is what is known of one run of a check beside its output.
type Check struct {
	Run       run.ID `json:"run"`
	Name      string `json:"start"`
	Iteration int    `json:"iteration"`
	TaskID    string `json:"task,omitempty"`
	Gate      string `json:"gate"`
	Command   string `json:"command"`
	// Of says on what it ran where that was not what the agent proposed: "as it was
	// before the work began".
	Of string `json:"of,omitempty"`

	// How it ended.
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished,omitzero"`
	Passed   bool      `json:"passed"`
	ExitCode int       `json:"exit_code"`
	Reason   string    `json:"reason,omitempty"`
	// Cut is how many bytes are left out in the middle of its output.
	Cut int64 `json:"cut,omitempty"`
}

// KeepCheck keeps the whole output of a check, up to the bound of a text. Where it
// is kept already nothing is read.
func (s *Store) KeepCheck(c Check, output io.Reader) error {
	path, err := s.path(c.Run, c.Iteration, c.Name, checkExtension)
	if err != nil {
		return err
	}
	c.Command = s.mask.Mask(c.Command)
	return s.keep(c.Run, path, func(archive *zip.Writer) error {
		if c.Cut, err = s.writePart(archive, part{StdoutPart, output}); err != nil {
			return err
		}
		return writeMeta(archive, c)
	})
}

// Checks lists what is kept of a run's checks, in the order in which they began.
func (s *Store) Checks(id run.ID) ([]Check, error) {
	names, err := s.archives(id, checkExtension)
	if err != nil {
		return nil, err
	}
	var all []Check
	for _, name := range names {
		c, archive, err := s.openCheck(id, name)
		if err != nil {
			return nil, err
		}
		_ = archive.Close() // nothing was written
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b Check) int { return a.Started.Compare(b.Started) })
	return all, nil
}

func (s *Store) openCheck(id run.ID, name string) (c Check, archive *zip.ReadCloser, err error) {
	if archive, err = s.openArchive(id, name, &c); err != nil {
		return c, nil, fmt.Errorf("open the output of check %s: %w", name, err)
	}
	return c, archive, nil
}

// WriteCheck writes what a check printed for a person to read, under a title. It is
// the word of the code that was checked, as it was printed.
func (s *Store) WriteCheck(w io.Writer, c Check) (err error) {
	path, err := s.path(c.Run, c.Iteration, c.Name, checkExtension)
	if err != nil {
		return err
	}
	_, archive, err := s.openCheck(c.Run, filepath.Base(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	if _, err := fmt.Fprintln(w, run.PrintableLine("── "+c.title())); err != nil {
		return fmt.Errorf("print the output of a check: %w", err)
	}
	out, err := archive.Open(StdoutPart)
	if err != nil {
		return fmt.Errorf("open the output of a check: %w", err)
	}
	defer func() { _ = out.Close() }()
	if _, err := io.Copy(w, out); err != nil {
		return fmt.Errorf("print the output of a check: %w", err)
	}
	_, err = fmt.Fprintln(w)
	return err
}

func (c Check) title() string {
	end := "passed"
	if !c.Passed {
		end = fmt.Sprintf("failed with exit code %d", c.ExitCode)
		if c.Reason != "exited" && c.Reason != "" {
			end = "failed: " + c.Reason
		}
	}
	if !c.Started.IsZero() && !c.Finished.IsZero() {
		end += " in " + c.Finished.Sub(c.Started).Round(100*time.Millisecond).String()
	}
	parts := []string{fmt.Sprintf("iteration %d", c.Iteration)}
	for _, s := range []string{c.TaskID, c.Gate, c.Of, end} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " · ")
}
