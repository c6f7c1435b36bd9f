//go:build unix

package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

const (
	// manifestFile is the first file in a backup and says what it is.
	manifestFile = "backup.json"
	// maxManifest bounds it, in bytes.
	maxManifest = 64 << 10
	// backupFormat changes when an older program could not read a backup.
	backupFormat = 1
)

// manifest is the content of manifestFile.
type manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"`
	Made    time.Time `json:"made"`
}

// backupCmd is `bot backup`.
type backupCmd struct {
	File   string `arg:"" help:"The file to write: a gzipped tar archive. It must not exist." type:"path"`
	Config string `default:"ralph.yaml" help:"The server's configuration (default: ${default})." placeholder:"FILE" type:"path"`
}

// Run writes the backup. The server may go on meanwhile.
func (c *backupCmd) Run(ctx bound, io stdio) (err error) {
	cfg, err := config.ReadServer(c.Config, os.ReadFile)
	if err != nil {
		return err
	}
	dataDir, db := cfg.DataDir, cfg.Database()
	if _, err := os.Stat(db); err != nil {
		return &run.UserError{Message: "no database at " + db, Hint: "run this where the server runs, as its user", Err: err}
	}
	f, err := os.OpenFile(c.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return &run.UserError{Message: "cannot write the backup: " + err.Error(),
			Hint: "name a file that does not exist", Err: err}
	}
	err = writeBackup(ctx, f, dataDir)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(c.File))
	}
	fmt.Fprintf(io.out, "Wrote %s. Keep %s and the App's private key as well: they are not in it.\n",
		run.PrintableLine(c.File), run.PrintableLine(filepath.Base(c.Config)))
	return nil
}

// writeBackup writes what a server would miss to w and flushes it to the disk.
// Everything else in the data directory can be fetched or made again.
func writeBackup(ctx context.Context, f *os.File, dataDir string) (err error) {
	// Beside the database, which is known to have room for itself.
	tmp, err := os.MkdirTemp(dataDir, "backup-*")
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	db, copied := filepath.Join(dataDir, config.DatabaseFile), filepath.Join(tmp, config.DatabaseFile)
	if err := store.Backup(ctx, db, copied); err != nil {
		return err
	}
	packed := gzip.NewWriter(f)
	w := tar.NewWriter(packed)
	about, err := json.Marshal(manifest{Format: backupFormat, Version: versionLine(), Made: time.Now().UTC()})
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	if err := w.WriteHeader(&tar.Header{Name: manifestFile, Mode: 0o600, Size: int64(len(about))}); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	if _, err := w.Write(about); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	if err := addToBackup(w, tmp, config.DatabaseFile); err != nil {
		return err
	}
	records, err := filepath.Glob(filepath.Join(dataDir, analyticsFile+"*"))
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	for _, name := range records {
		if err := addToBackup(w, dataDir, filepath.Base(name)); err != nil {
			return err
		}
	}
	err = filepath.WalkDir(transcriptsDir(dataDir), func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist): // a server removes what is too old
			return nil
		case err != nil || !d.Type().IsRegular():
			return err
		}
		rel, err := filepath.Rel(dataDir, name)
		if err != nil {
			return err
		}
		return addToBackup(w, dataDir, rel)
	})
	if err != nil {
		return fmt.Errorf("back up transcripts: %w", err)
	}
	if err := errors.Join(w.Close(), packed.Close(), f.Sync()); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	return nil
}

// inBackup says whether a file of the data directory belongs into backups.
func inBackup(rel string) bool {
	return rel == config.DatabaseFile || path.Dir(rel) == "." && strings.HasPrefix(rel, analyticsFile) ||
		strings.HasPrefix(rel, transcriptsDir("")+"/")
}

// addToBackup adds a file as long as it is now: a server may be writing to it.
func addToBackup(w *tar.Writer, dir, rel string) (err error) {
	f, err := os.Open(filepath.Join(dir, rel)) // #nosec G304 -- a file of our own
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	head := &tar.Header{Name: filepath.ToSlash(rel), Mode: 0o600, Size: info.Size(), ModTime: info.ModTime()}
	if err := w.WriteHeader(head); err != nil {
		return fmt.Errorf("back up %s: %w", rel, err)
	}
	if _, err := io.CopyN(w, f, info.Size()); err != nil {
		return fmt.Errorf("back up %s: %w", rel, err)
	}
	return nil
}

// restoreCmd is `bot restore`.
type restoreCmd struct {
	File   string `arg:"" optional:"" help:"The backup; none where the database was put back by other means, by Litestream for instance." type:"existingfile"`
	Config string `default:"ralph.yaml" help:"The server's configuration (default: ${default})." placeholder:"FILE" type:"path"`
}

// Run puts a backup where the server finds it. The server must not run.
func (c *restoreCmd) Run(ctx bound, io stdio) error {
	cfg, err := config.ReadServer(c.Config, os.ReadFile)
	switch {
	case err != nil:
		return err
	case c.File == "" && exists(cfg.Database()):
		return restoreInPlace(ctx, cfg, io)
	case c.File == "":
		return &run.UserError{Message: "which backup?", Hint: "name the file that " + calledAs() + " backup wrote"}
	}
	dataDir, db := cfg.DataDir, cfg.Database()
	if exists(db) {
		return &run.UserError{
			Message: "there is a database at " + db + " already",
			Hint:    "stop the server and move " + dataDir + " away, or set data_dir to an empty directory",
		}
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return &run.UserError{Message: "cannot create the data directory: " + err.Error(),
			Hint: "choose another data_dir", Err: err}
	}
	about, open, err := readBackup(ctx, c.File, dataDir)
	if err != nil {
		return err
	}
	fmt.Fprintf(io.out, "Restored the backup of %s.\n", about.Made.Local().Format("2006-01-02 15:04"))
	tellOpen(io, open)
	return nil
}

// tellOpen says what becomes of runs that had not ended.
func tellOpen(io stdio, open int) {
	if open > 0 {
		fmt.Fprintf(io.out, "Runs that had not ended: %d. Each looks at its branch first when you start the server, "+
			"so that nothing is done twice.\n", open)
	}
}

// restoreInPlace has a database that is there be known as a copy of an earlier moment. The
// server must not run.
func restoreInPlace(ctx context.Context, cfg config.Server, io stdio) (err error) {
	open, err := catchUpLater(ctx, cfg.Database())
	if err != nil {
		return unusableStore(err)
	}
	fmt.Fprintln(io.out, "The database is known to be restored.")
	tellOpen(io, open)
	return nil
}

// readBackup unpacks a backup beside the data directory's files and moves it there when
// it is whole. It says how many runs in it have not ended.
func readBackup(ctx context.Context, file, dataDir string) (about manifest, open int, err error) {
	f, err := os.Open(file) // #nosec G304 -- the operator names it
	if err != nil {
		return about, 0, fmt.Errorf("restore: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	tmp, err := os.MkdirTemp(dataDir, "restore-*")
	if err != nil {
		return about, 0, fmt.Errorf("restore: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if about, err = unpackBackup(f, tmp); err != nil {
		return about, 0, &run.UserError{
			Message: fmt.Sprintf("%s cannot be restored: %v", file, err), Hint: "use another backup", Err: err,
		}
	}
	open, err = catchUpLater(ctx, filepath.Join(tmp, config.DatabaseFile))
	switch {
	case errors.Is(err, store.ErrOtherVersion):
		return about, 0, &run.UserError{
			Message: file + " cannot be restored: it was made by another version: " + run.PrintableLine(about.Version),
			Hint:    "restore it with that version, or use another backup", Err: err,
		}
	case err != nil:
		return about, 0, unusableStore(err)
	}
	entries, err := os.ReadDir(tmp)
	if err != nil {
		return about, 0, fmt.Errorf("restore: %w", err)
	}
	for _, e := range entries {
		if there := filepath.Join(dataDir, e.Name()); exists(there) {
			return about, 0, &run.UserError{Message: there + " is there already", Hint: "restore into an empty data_dir"}
		}
	}
	// The database comes last: with it the restore is complete.
	for _, last := range []bool{false, true} {
		for _, e := range entries {
			if (e.Name() == config.DatabaseFile) != last {
				continue
			}
			if err := os.Rename(filepath.Join(tmp, e.Name()), filepath.Join(dataDir, e.Name())); err != nil {
				return about, 0, fmt.Errorf("restore: %w", err)
			}
		}
	}
	return about, open, nil
}

// unpackBackup writes the files of a backup into dir.
func unpackBackup(from io.Reader, dir string) (about manifest, err error) {
	unpacked, err := gzip.NewReader(from)
	if err != nil {
		return about, fmt.Errorf("it is no backup: %w", err)
	}
	r := tar.NewReader(unpacked)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return about, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for first := true; ; first = false {
		head, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			if _, err := root.Stat(config.DatabaseFile); err != nil {
				return about, errors.New("it holds no database")
			}
			return about, nil
		case err != nil:
			return about, fmt.Errorf("it is not whole: %w", err)
		case first && head.Name == manifestFile:
			if err := json.NewDecoder(io.LimitReader(r, maxManifest)).Decode(&about); err != nil {
				return about, fmt.Errorf("its %s cannot be read: %w", manifestFile, err)
			}
			if about.Format > backupFormat {
				return about, fmt.Errorf("it was made by a newer version: %s", run.PrintableLine(about.Version))
			}
		case first:
			return about, errors.New("it is no backup")
		case head.Typeflag != tar.TypeReg || !filepath.IsLocal(head.Name) || path.Clean(head.Name) != head.Name ||
			!inBackup(head.Name):
			return about, fmt.Errorf("it holds %q, which no backup does", head.Name)
		default:
			if err := unpackFile(root, head.Name, r); err != nil {
				return about, fmt.Errorf("%s: %w", head.Name, err)
			}
		}
	}
}

func exists(name string) bool {
	_, err := os.Lstat(name) // #nosec G703 -- a file of the data directory
	return !errors.Is(err, fs.ErrNotExist)
}

func unpackFile(root *os.Root, name string, from io.Reader) (err error) {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from) // #nosec G110 -- the operator's own file
	return errors.Join(err, f.Sync(), f.Close())
}

// catchUpLater has each run in a restored database that has not ended look at its branch
// before it does anything, and says how many these are.
func catchUpLater(ctx context.Context, db string) (open int, err error) {
	st, err := store.Open(ctx, db)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := st.Check(ctx); err != nil {
		return 0, err
	}
	return st.Restored(ctx, time.Now(), outdated)
}

// outdated is the state of a run that looks at its branch before it does anything.
func outdated(state []byte) ([]byte, error) {
	s, err := loop.Decode(state)
	if err != nil {
		return nil, err
	}
	return loop.Encode(loop.Outdated(s))
}
