//go:build s3

package main

import (
	"bytes"
	"encoding/base64"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/blob"
	"github.com/org/ralph-action/internal/blob/s3"
	"github.com/org/ralph-action/internal/blob/s3/s3test"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
)

// inS3 is files in a new bucket, encrypted.
func inS3(t *testing.T) (config.Files, *s3.Store) {
	t.Helper()
	o := s3test.Bucket(t)
	o.Prefix = "bot"
	return config.Files{
		S3: config.S3{
			Endpoint: o.Endpoint, Region: o.Region, Bucket: o.Bucket, Prefix: o.Prefix,
			AccessKey: config.Secret(o.AccessKey), SecretKey: config.Secret(o.SecretKey),
		},
		Keys: []config.Secret{config.Secret(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32)))},
	}, s3.New(o)
}

// TestTranscriptsInS3: what agents said is in the bucket once the server has ended, in nobody's
// words but for who has the key, and goes with its run.
func TestTranscriptsInS3(t *testing.T) {
	t.Parallel()
	files, raw := inS3(t)
	st := newStage(t, setting{script: writesAll, change: func(c *config.Server) { c.Files = files }})
	s := st.serve()
	issue := st.label("Say hello to everybody", threeTasks)
	state := st.ended(s.store, issue)
	st.processed(s)
	to, err := elsewhere(st.config, s.store, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	// Nobody knows this one: its row went while the bucket was away.
	if err := to.Files.Put(t.Context(), blob.OfRun("20200101-000000-gone")+"0001-a.zip", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.app.collect(t.Context(), false); err != nil {
		t.Error(err)
	}
	s.stop()
	to.Gone = nil // it would ask the server's store
	all, err := raw.List(t.Context(), "")
	if err != nil || len(all) == 0 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, i := range all {
		if !strings.HasPrefix(i.Name, blob.OfRun(state.Run)) {
			t.Errorf("there is %s", i.Name)
		}
		r, err := raw.Open(t.Context(), i.Name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		_ = r.Close()
		if err != nil || bytes.Contains(b, []byte("PK\x03\x04")) || bytes.Contains(b, []byte("task.done")) {
			t.Errorf("%s is not encrypted, %v", i.Name, err)
		}
	}
	st.config.DataDir = mkdir(t, filepath.Join(st.dir, "empty"))
	code, out := st.bot("transcript", "--config", st.writeConfig(), string(state.Run))
	if code != 0 || !strings.Contains(out, "→ task.done T3") {
		t.Errorf("%d: %s", code, out)
	}
	st.config.Files.Keys = nil
	if code, out := st.bot("transcript", "--config", st.writeConfig(), string(state.Run)); code != run.ExitUsage {
		t.Errorf("without the key: %d, %s", code, out)
	}
	kept := transcript.OpenSpool(t.TempDir(), nil, to)
	if err := kept.Prune(t.Context(), transcript.Limits{Keep: time.Hour}, time.Now().Add(2*time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	if all, err := raw.List(t.Context(), ""); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestBucketIsAway: runs do not need the bucket, and what they said gets there when the server
// starts after it has come back.
func TestBucketIsAway(t *testing.T) {
	t.Parallel()
	files, raw := inS3(t)
	st := newStage(t, setting{script: writesAll, change: func(c *config.Server) {
		c.Files = files
		c.Files.S3.Endpoint = "http://127.0.0.1:1"
	}})
	s := st.serve()
	issue := st.label("Say hello to everybody", threeTasks)
	if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	s.stop()
	kept := transcript.Open(transcriptsDir(st.config.DataDir), nil)
	if ids, err := kept.Runs(t.Context()); err != nil || len(ids) != 1 {
		t.Errorf("on the disk: %v, %v", ids, err)
	}
	st.config.Files.S3.Endpoint = files.S3.Endpoint
	s = st.serve()
	st.processed(s)
	s.stop()
	if ids, err := kept.Runs(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("still on the disk: %v, %v", ids, err)
	}
	if all, err := raw.List(t.Context(), ""); err != nil || len(all) < 4 { // three calls, and the verdicts
		t.Errorf("%v, %v", all, err)
	}
	st.checkWorld()
}

// TestDoctorTriesTheBucket: what is wrong with it is said before a run finds it.
func TestDoctorTriesTheBucket(t *testing.T) {
	t.Parallel()
	files, raw := inS3(t)
	st := newStage(t, setting{script: writesAll, change: func(c *config.Server) { c.Files = files }})
	_, checks, out := st.doctored()
	if c := checks["files"]; c.Status != statusOK || !strings.Contains(c.Message, "is encrypted") {
		t.Errorf("%+v\n%s", c, out)
	}
	if all, err := raw.List(t.Context(), ""); err != nil || len(all) > 0 {
		t.Errorf("the doctor left %v, %v", all, err)
	}
	for want, change := range map[string]func(*config.Files){
		"S3 answers NoSuchBucket":          func(f *config.Files) { f.S3.Bucket = "other" },
		"S3 answers SignatureDoesNotMatch": func(f *config.Files) { f.S3.SecretKey = "hunter2-hunter2" },
		"S3 cannot be reached":             func(f *config.Files) { f.S3.Endpoint = "http://127.0.0.1:1" },
		"not 32 bytes in base64":           func(f *config.Files) { f.Keys = []config.Secret{"hunter2-hunter2"} },
	} {
		st.config.Files = files
		change(&st.config.Files)
		_, checks, out := st.doctored()
		c := checks["files"]
		if c.Status != statusFail || !strings.Contains(c.Message, want) || c.Hint == "" || strings.Contains(out, "hunter2") {
			t.Errorf("want %q, got %+v\n%s", want, c, out)
		}
	}
}

// TestFilesTakeOtherKeys: a key that is put first encrypts from then on, what the one before has
// encrypted stays readable, and what is no key changes nothing.
func TestFilesTakeOtherKeys(t *testing.T) {
	t.Parallel()
	files, raw := inS3(t)
	cfg := config.DefaultServer()
	cfg.Files = files
	live := &liveFiles{now: time.Now}
	if err := live.use(cfg); err != nil {
		t.Fatal(err)
	}
	to := live.elsewhere().Files
	put := func(name string) {
		t.Helper()
		if err := to.Put(t.Context(), name, strings.NewReader(name)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(from blob.Store, name string) error {
		t.Helper()
		r, err := from.Open(t.Context(), name)
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }()
		if b, err := io.ReadAll(r); err != nil || string(b) != name {
			t.Errorf("%s is %q, %v", name, b, err)
		}
		return nil
	}
	put("first")
	other := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("o"), 32))
	next := cfg.WithSecret(config.EnvFilesKey, other+"\n"+files.Keys[0].Reveal())
	if err := live.use(next); err != nil {
		t.Fatal(err)
	}
	put("second")
	if err := live.use(next.WithSecret(config.EnvFilesKey, "none")); err == nil {
		t.Error("it takes what is no key")
	}
	for _, name := range []string{"first", "second"} {
		if err := read(to, name); err != nil {
			t.Error(err)
		}
	}
	keys, err := fileKeys(files)
	if err != nil {
		t.Fatal(err)
	}
	if err := read(blob.Seal(raw, keys), "second"); err == nil {
		t.Error("the key before encrypts")
	}
}
