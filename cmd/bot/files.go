package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/blob"
	"github.com/org/ralph-action/internal/blob/s3"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// elsewhere is where a server's files are that outlive its machine; nothing where they stay in
// data_dir. st is nil where the database is not open.
func elsewhere(cfg config.Server, st *store.Store, now func() time.Time) (to transcript.Elsewhere, err error) {
	if st != nil {
		to.Gone = st.Gone
	}
	switch {
	case cfg.Files.S3.Bucket != "":
		to.Files = bucket(cfg.Files.S3)
	case cfg.DatabaseURL != "" && st != nil:
		to.Files = st.Blobs(now)
	default:
		return transcript.Elsewhere{}, nil
	}
	keys, err := fileKeys(cfg.Files)
	to.Files = blob.Seal(to.Files, keys)
	return to, err
}

// liveFiles are those of a server, kept with the secrets of now.
type liveFiles struct {
	st  *store.Store
	now func() time.Time
	at  atomic.Pointer[transcript.Elsewhere]
}

// use takes other secrets; what cannot be used changes nothing.
func (f *liveFiles) use(cfg config.Server) error {
	to, err := elsewhere(cfg, f.st, f.now)
	if err == nil {
		f.at.Store(&to)
	}
	return err
}

// elsewhere is where they are, whatever becomes of the secrets.
func (f *liveFiles) elsewhere() transcript.Elsewhere {
	to := *f.at.Load()
	if to.Files != nil {
		to.Files = f
	}
	return to
}

func (f *liveFiles) files() blob.Store { return f.at.Load().Files }

// Put implements blob.Store.
func (f *liveFiles) Put(ctx context.Context, name string, r io.Reader) error {
	return f.files().Put(ctx, name, r)
}

// Open implements blob.Store.
func (f *liveFiles) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	return f.files().Open(ctx, name)
}

// Delete implements blob.Store.
func (f *liveFiles) Delete(ctx context.Context, names ...string) error {
	return f.files().Delete(ctx, names...)
}

// List implements blob.Store.
func (f *liveFiles) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	return f.files().List(ctx, prefix)
}

func fileKeys(f config.Files) (blob.Keys, error) {
	var texts []string
	for _, key := range f.Keys {
		texts = append(texts, key.Reveal())
	}
	return blob.ParseKeys(texts...)
}

func bucket(c config.S3) blob.Store {
	return s3.New(s3.Options{
		Endpoint: c.Endpoint, Region: c.Region, Bucket: c.Bucket, Prefix: c.Prefix,
		AccessKey: c.AccessKey.Reveal(), SecretKey: c.SecretKey.Reveal(),
	})
}

// readElsewhere is elsewhere for a command beside the server. What it opens for that is closed
// by end.
func readElsewhere(ctx context.Context, cfg config.Server) (to transcript.Elsewhere, end func() error, err error) {
	end = func() error { return nil }
	var st *store.Store
	if cfg.DatabaseURL != "" && cfg.Files.S3.Bucket == "" {
		if st, err = openServerStore(ctx, cfg); err != nil {
			return to, end, err
		}
		end = st.Close
	}
	to, err = elsewhere(cfg, st, time.Now)
	return to, end, err
}

// fileSecrets are the secrets of what keeps files.
func fileSecrets(f config.Files) []string {
	out := []string{f.S3.SecretKey.Reveal()}
	for _, key := range f.Keys {
		out = append(out, key.Reveal())
	}
	return out
}

// files says whether a bucket takes files and gives them back, and whether the keys are some.
func (c *doctorCmd) files(ctx context.Context, cfg config.Server) finding {
	f := finding{what: "files"}
	keys, err := fileKeys(cfg.Files)
	if err != nil || cfg.Files.S3.Bucket == "" {
		f.ok, f.err = "what is put into the database is encrypted", err
		return f
	}
	f.ok = "the bucket " + cfg.Files.S3.Bucket + " can be written, read and listed"
	if len(keys) > 0 {
		f.ok += "; what is put there is encrypted"
	}
	if err := probe(ctx, blob.Seal(bucket(cfg.Files.S3), keys)); err != nil {
		f.err = &run.UserError{
			Message: "the bucket cannot be used: " + err.Error(), Err: err,
			Hint: "look whether files.s3 names the right endpoint, region and bucket, and whether " +
				config.EnvS3AccessKey + " may put, get, delete and list objects there",
		}
	}
	return f
}

// probeFor bounds how long a bucket is waited for.
const probeFor = time.Minute

// probe puts something into a store and takes it out again.
func probe(ctx context.Context, files blob.Store) (err error) {
	ctx, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	name, text := "doctor/"+rand.Text(), rand.Text()
	if err := files.Put(ctx, name, strings.NewReader(text)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Delete(ctx, name)) }()
	r, err := files.Open(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	got, err := io.ReadAll(r)
	if err == nil && string(got) != text {
		err = fmt.Errorf("%s came back as something else", name)
	}
	if err != nil {
		return err
	}
	all, err := files.List(ctx, name)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("%s is not listed", name)
	}
	return err
}
