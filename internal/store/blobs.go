package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	blobs "github.com/org/ralph-action/internal/blob"
	"github.com/org/ralph-action/internal/run"
)

// KeepUnready is how long a blob stays that was begun and not finished.
const KeepUnready = 24 * time.Hour

// Blobs keeps files in rows, in chunks of blob.ChunkSize. They go with their run, in the
// transaction that removes it. It is a blob.Store.
type Blobs struct {
	s   *Store
	now func() time.Time
}

// Blobs is the files in the database.
func (s *Store) Blobs(now func() time.Time) *Blobs { return &Blobs{s, now} }

// Put implements blob.Store. It writes chunk by chunk, in statements that need no turn, and
// takes one only to put what it has written in its place.
func (b *Blobs) Put(ctx context.Context, name string, r io.Reader) (err error) {
	if err := blobs.CheckName(name); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("put %s: %w", name, err)
		}
	}()
	var id int64
	if err := b.s.single.QueryRowContext(ctx, `INSERT INTO blobs (name, ready, size, at) VALUES (?, 0, 0, ?) RETURNING id`,
		name, micros(b.now())).Scan(&id); err != nil {
		return err
	}
	defer func() {
		if err != nil { // if this fails, Prune finds it
			_, _ = b.s.single.ExecContext(context.WithoutCancel(ctx), `DELETE FROM blobs WHERE id = ? AND ready = 0`, id)
		}
	}()
	var size int64
	chunk := make([]byte, blobs.ChunkSize)
	for n, last := 0, false; !last; n++ {
		got, err := io.ReadFull(r, chunk)
		last = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		if got == 0 {
			break
		}
		if _, err := b.s.single.ExecContext(ctx, `INSERT INTO blob_chunks (blob, n, data) VALUES (?, ?, ?)`, id, n,
			chunk[:got]); err != nil {
			return err
		}
		size += int64(got)
	}
	return b.s.InTx(ctx, func(tx *Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM blobs WHERE name = ? AND ready = 1`, name); err != nil {
			return err
		}
		n, err := changed(tx.ExecContext(ctx, `UPDATE blobs SET ready = 1, size = ?, at = ? WHERE id = ?`, size,
			micros(b.now()), id))
		if err == nil && n == 0 {
			err = errors.New("it took so long that it was removed as unfinished")
		}
		return err
	})
}

// Open implements blob.Store.
func (b *Blobs) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := blobs.CheckName(name); err != nil {
		return nil, err
	}
	r := &rowReader{ctx: ctx, b: b, name: name}
	err := b.s.reader.QueryRowContext(ctx, `SELECT id, size FROM blobs WHERE name = ? AND ready = 1`, name).
		Scan(&r.id, &r.left)
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return r, nil
}

// rowReader reads the chunks of a blob, one statement each.
type rowReader struct {
	ctx  context.Context //nolint:containedctx // io.Reader has none; it is that of Open
	b    *Blobs
	name string
	id   int64
	n    int64
	left int64
	out  []byte
}

// Read implements io.Reader.
func (r *rowReader) Read(p []byte) (int, error) {
	if len(r.out) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		err := r.b.s.reader.QueryRowContext(r.ctx, `SELECT data FROM blob_chunks WHERE blob = ? AND n = ?`, r.id, r.n).
			Scan(&r.out)
		if errors.Is(err, sql.ErrNoRows) {
			err = errors.New("it was replaced or removed meanwhile")
		}
		if err == nil && (len(r.out) == 0 || int64(len(r.out)) > r.left) {
			err = blobs.ErrDamaged
		}
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", r.name, err)
		}
		r.n++
		r.left -= int64(len(r.out))
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// Close implements io.Closer.
func (r *rowReader) Close() error { return nil }

// Delete implements blob.Store, in one transaction.
func (b *Blobs) Delete(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	err := b.s.InTx(ctx, func(tx *Tx) error {
		for _, name := range names {
			if _, err := tx.ExecContext(ctx, `DELETE FROM blobs WHERE name = ? AND ready = 1`, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete files: %w", err)
	}
	return nil
}

// List implements blob.Store.
func (b *Blobs) List(ctx context.Context, prefix string) ([]blobs.Info, error) {
	var all []blobs.Info
	err := each(ctx, b.s.reader, `SELECT name, size, at FROM blobs WHERE ready = 1 AND name >= ? AND name < ? ORDER BY name`,
		func(scan func(...any) error) error {
			var i blobs.Info
			var at int64
			if err := scan(&i.Name, &i.Size, &at); err != nil {
				return err
			}
			i.Put = fromMicros(at)
			all = append(all, i)
			return nil
		}, prefix, blobs.End(prefix))
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	return all, nil
}

// Gone says which of these runs have no row any more. Ask with the ids of what was found
// elsewhere, after it was found: whatever a run has was made after its row.
func (s *Store) Gone(ctx context.Context, ids []run.ID) (map[run.ID]bool, error) {
	gone := map[run.ID]bool{}
	for _, id := range ids {
		var found bool
		if err := s.reader.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM runs WHERE id = ?)`, string(id)).
			Scan(&found); err != nil {
			return nil, fmt.Errorf("look for run %s: %w", id, err)
		}
		if !found {
			gone[id] = true
		}
	}
	return gone, nil
}

// dropUnready removes blobs that were begun and not finished.
func dropUnready(ctx context.Context, tx *Tx, where string, before int64) (int64, error) {
	return changed(tx.ExecContext(ctx, `DELETE FROM blobs WHERE id IN (SELECT id FROM blobs WHERE `+where+` LIMIT ?)`,
		before, pruneBatch))
}
