package transcript

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/blob"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

// Elsewhere is where transcripts are that must outlive this machine.
type Elsewhere struct {
	Files blob.Store
	// Gone says which of these runs nobody knows any more: what is left of them is removed. It
	// is asked after they were found. Nil: all are known.
	Gone func(ctx context.Context, ids []run.ID) (map[run.ID]bool, error)
}

// OpenSpool gives the store that has in dir only what was written and not yet carried to
// where the rest is. It reads both.
func OpenSpool(dir string, mask *redact.Masker, to Elsewhere) *Store {
	s := Open(dir, mask)
	s.to = to
	return s
}

// newPrefix begins the name of a file that is being written.
const newPrefix = "new-"

// isFile says whether the name of a file leads nowhere else.
func isFile(name string) bool { return blob.CheckName(name) == nil && filepath.Base(name) == name }

// Carry takes what is kept of a run from the disk to where it outlives this machine: once a
// call or a check has ended, and else when the run has. What is not carried stays for the
// next time. Where transcripts stay on the disk it does nothing.
func (s *Store) Carry(ctx context.Context, id run.ID, ended bool) error {
	if s.to.Files == nil || !nameRE().MatchString(string(id)) {
		return nil
	}
	s.carrying.Lock()
	defer s.carrying.Unlock()
	if err := s.carry(ctx, id, ended); err != nil {
		return fmt.Errorf("carry the transcripts of run %s: %w", id, err)
	}
	return nil
}

// CarryAll carries what is left of all runs, by a process that was killed, say.
func (s *Store) CarryAll(ctx context.Context) error {
	if s.to.Files == nil {
		return nil
	}
	ids, err := s.here()
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, s.Carry(ctx, id, true))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func (s *Store) carry(ctx context.Context, id run.ID, ended bool) error {
	names, err := s.spooled(id)
	if err != nil {
		return err
	}
	list := slices.Index(names, verdictFile)
	if len(names) == 0 || list >= 0 && len(names) == 1 && !ended {
		return nil
	}
	if list >= 0 {
		// The next verdict begins a list of its own.
		if names[list], err = s.endList(id); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := s.carryFile(ctx, id, name); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = os.Remove(s.Dir(id)) // if there is nothing new
	return nil
}

// spooled lists the whole files of a run that are on the disk.
func (s *Store) spooled(id run.ID) ([]string, error) {
	entries, err := os.ReadDir(s.Dir(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), newPrefix) && isFile(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (s *Store) carryFile(ctx context.Context, id run.ID, name string) (err error) {
	path := filepath.Join(s.Dir(id), name)
	f, err := os.Open(path) // #nosec G304 -- a file of our own
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	before, err := f.Stat()
	if err != nil {
		return err
	}
	if before.Size() == 0 { // refused work that was forgotten
		err = s.to.Files.Delete(ctx, blob.OfRun(id)+name)
	} else {
		err = s.to.Files.Put(ctx, blob.OfRun(id)+name, f)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// What has taken its place meanwhile is carried next time.
	if now, err := os.Lstat(path); err != nil || !os.SameFile(before, now) {
		return err
	}
	return os.Remove(path)
}

// names lists the files of a run, wherever they are. fs.ErrNotExist where nothing is kept.
func (s *Store) names(ctx context.Context, id run.ID) ([]string, error) {
	if !nameRE().MatchString(string(id)) {
		return nil, fs.ErrNotExist
	}
	// The disk first: what is carried meanwhile is seen there, or then elsewhere.
	names, err := s.spooled(id)
	if err != nil {
		return nil, err
	}
	if s.to.Files != nil {
		all, err := s.to.Files.List(ctx, blob.OfRun(id))
		if err != nil {
			return nil, err
		}
		for _, i := range all {
			if _, name, ok := blob.Run(i.Name); ok && isFile(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		if _, err := os.Stat(s.Dir(id)); err != nil {
			return nil, fs.ErrNotExist
		}
	}
	return names, nil
}

// open opens a file of a run that names has listed.
func (s *Store) open(ctx context.Context, id run.ID, name string) (_ *os.File, err error) {
	if !nameRE().MatchString(string(id)) || !isFile(name) {
		return nil, fs.ErrNotExist
	}
	f, err := os.Open(filepath.Join(s.Dir(id), name)) // #nosec G304 -- a name that leads nowhere else
	if s.to.Files == nil || !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	r, err := s.to.Files.Open(ctx, blob.OfRun(id)+name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	// An archive is read at several places; it is on no disk once it is closed.
	if f, err = os.CreateTemp("", "ralph-transcript-"); err != nil {
		return nil, err
	}
	err = os.Remove(f.Name())
	if err == nil {
		_, err = io.Copy(f, r)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Save writes all that is kept of a run into a new directory, as it is kept on a disk.
// fs.ErrNotExist where nothing is.
func (s *Store) Save(ctx context.Context, id run.ID, dir string) error {
	names, err := s.names(ctx, id)
	if err != nil {
		return err
	}
	err = os.MkdirAll(filepath.Dir(dir), 0o700)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("save transcripts: %w", err)
	}
	for _, name := range names {
		if err := s.saveFile(ctx, id, name, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("save transcripts: %s: %w", name, err)
		}
	}
	return nil
}

func (s *Store) saveFile(ctx context.Context, id run.ID, name, to string) (err error) {
	from, err := s.open(ctx, id, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if info, err := from.Stat(); err != nil || info.Size() == 0 { // forgotten, and not yet elsewhere
		return err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // #nosec G304 -- the person names it
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// here lists the runs that have a directory.
func (s *Store) here() ([]run.ID, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list transcripts: %w", err)
	}
	var ids []run.ID
	for _, e := range entries {
		if e.IsDir() && nameRE().MatchString(e.Name()) {
			ids = append(ids, run.ID(e.Name())) // they begin with their time
		}
	}
	return ids, nil
}

// carried weighs what is elsewhere, by run.
func (s *Store) carried(ctx context.Context) ([]kept, error) {
	all, err := s.to.Files.List(ctx, blob.OfRuns())
	if err != nil {
		return nil, fmt.Errorf("list transcripts: %w", err)
	}
	var out []kept
	for _, i := range all {
		id, _, ok := blob.Run(i.Name)
		if !ok || !nameRE().MatchString(string(id)) {
			continue
		}
		if len(out) == 0 || out[len(out)-1].id != id {
			out = append(out, kept{id: id, dir: s.Dir(id)})
		}
		k := &out[len(out)-1]
		k.names = append(k.names, i.Name)
		k.size += i.Size
		if i.Put.After(k.last) {
			k.last = i.Put
		}
	}
	return out, nil
}

// keepEmpty is how long a directory stays in which nothing was finished.
const keepEmpty = time.Hour

// tidy removes directories of ended runs that hold nothing to carry: only what a process
// was killed at.
func (s *Store) tidy(now time.Time, keep func(run.ID) bool) error {
	ids, err := s.here()
	if err != nil {
		return err
	}
	s.carrying.Lock()
	defer s.carrying.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, id := range ids {
		if keep != nil && keep(id) {
			continue
		}
		names, err := s.spooled(id)
		if err == nil && len(names) == 0 {
			var last time.Time
			if last, _, err = weigh(s.Dir(id)); err == nil && now.Sub(last) > keepEmpty {
				err = os.RemoveAll(s.Dir(id))
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
