//go:build unix

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/publish/island"
	"github.com/org/ralph-action/internal/store"
)

// keepDatabase is passed once for each release.
var keepDatabase = flag.Bool("keep-database", false, "keep a database of this version in testdata/databases")

const databasesDir = "testdata/databases"

// TestDatabasesOfEarlierVersions opens what earlier versions have left: tables are brought
// to those of now, and every state and every recorded effect can be read, with nothing
// in it lost.
func TestDatabasesOfEarlierVersions(t *testing.T) {
	t.Parallel()
	if *keepDatabase {
		keepOne(t)
	}
	files, err := filepath.Glob(filepath.Join(databasesDir, "*.db.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), config.DatabaseFile)
			unzip(t, file, path)
			st, err := store.Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := st.Close(); err != nil {
					t.Error(err)
				}
			}()
			if err := st.Check(t.Context()); err != nil {
				t.Error(err)
			}
			rows, err := st.RecentRuns(t.Context(), 100)
			if err != nil || len(rows) < 2 {
				t.Fatalf("%d runs, %v", len(rows), err)
			}
			for _, row := range rows {
				s, err := loop.Decode(row.State)
				if err != nil {
					t.Fatalf("run %s: %v", row.ID, err)
				}
				again, err := loop.Encode(s)
				if err != nil {
					t.Fatal(err)
				}
				if lost := lostIn("", parsed(t, row.State), parsed(t, again)); len(lost) > 0 {
					t.Errorf("of the state of run %s is lost: %s", row.ID, strings.Join(lost, ", "))
				}
				kinds, err := st.Effects(t.Context(), row.ID)
				if err != nil || len(kinds) < 5 {
					t.Errorf("run %s: %d effects, %v", row.ID, len(kinds), err)
				}
				for _, e := range kinds {
					if e.Status == store.EffectDone && !json.Valid(e.Result) {
						t.Errorf("%s: %q", e.Key, e.Result)
					}
				}
				nothingTwice(t, st, row, kinds)
			}
		})
	}
}

// offline is a GitHub that is asked for nothing but the pull request of a number.
type offline struct {
	publish.GitHub

	name  string
	asked []int
}

func (o *offline) FullName() string   { return o.name }
func (o *offline) Place() ghapp.Place { return ghapp.Place{} }
func (o *offline) PR(_ context.Context, n int) (ghapp.PR, error) {
	o.asked = append(o.asked, n)
	return ghapp.PR{}, ghapp.ErrNotFound
}

// nothingTwice publishes what a run has published: all of it is found in the rows that an
// earlier version has left, and GitHub is not asked. A call that is would panic.
func nothingTwice(t *testing.T, st *store.Store, row store.Run, rows []store.Effect) {
	t.Helper()
	gh := &offline{name: row.RepoOwner + "/" + row.RepoName}
	p := &publish.Publisher{GitHub: gh, Effects: effects.Runner{Store: st}, Run: row.ID, Issue: row.IssueNumber}
	tried := map[effects.Kind]int{}
	for _, e := range rows {
		if e.Status != store.EffectDone {
			continue
		}
		kind := effects.Kind(e.Kind)
		name := strings.TrimPrefix(e.Key, e.Kind+":"+string(row.ID)+":")
		tried[kind]++
		var err error
		switch kind { //nolint:exhaustive // the rest is asked of GitHub again
		case effects.KindBranch:
			p.Branch = name[strings.LastIndexByte(name, ':')+1:]
		case effects.KindCommit:
			var landed publish.Landed
			iteration, tree, _ := strings.Cut(name, ":")
			n, _ := strconv.Atoi(iteration)
			landed, err = p.Land(t.Context(), publish.Commit{Run: row.ID, Iteration: n, Tree: tree})
			if !strings.Contains(string(e.Result), landed.OID) || landed.OID == "" || landed.Tree != tree {
				t.Errorf("%s: landed %+v", e.Key, landed)
			}
		case effects.KindReaction:
			err = p.React(t.Context(), name[strings.LastIndexByte(name, ':')+1:])
		case effects.KindLabel:
			err = p.SetLabel(t.Context(), name[strings.LastIndex(name, ":+")+2:], true)
		case effects.KindPR:
			if _, err = p.EnsurePR(t.Context(), 0, island.View{}); errors.Is(err, ghapp.ErrNotFound) {
				err = nil
			}
			if len(gh.asked) != 1 || gh.asked[0] == 0 {
				t.Errorf("%s: asked for the pull requests %v", e.Key, gh.asked)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", e.Key, err)
		}
	}
	if tried[effects.KindBranch] == 0 || tried[effects.KindCommit] == 0 || tried[effects.KindPR] == 0 {
		t.Errorf("effects of run %s: %v", row.ID, tried)
	}
}

// keepOne writes a database with a run that has ended and one that is at work.
func keepOne(t *testing.T) {
	t.Helper()
	st := newStage(t, setting{script: hangsOnTwo})
	s := st.serve()
	done := st.label("Write one", "- [ ] Write one\n")
	st.ended(s.store, done)
	st.label("Say hello", threeTasks)
	st.agentAt(s, "T2")
	path := filepath.Join(st.dir, "kept.db")
	if err := store.Backup(t.Context(), st.config.Database(), path); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	var version int
	if err := db.QueryRowContext(t.Context(), `SELECT max(version_id) FROM goose_db_version`).Scan(&version); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The machine that it was made on is nobody's business.
	b = bytes.ReplaceAll(b, []byte(st.dir), bytes.Repeat([]byte("x"), len(st.dir)))
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(mkdir(t, databasesDir), fmt.Sprintf("%05d.db.gz", version)), out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func unzip(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if b, err = io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func parsed(t *testing.T, b []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// lostIn names what of was is not in is. Nothing, and what is empty, is lost nowhere.
func lostIn(at string, was, is any) (lost []string) {
	switch was := was.(type) {
	case map[string]any:
		now, _ := is.(map[string]any)
		for key, value := range was {
			lost = append(lost, lostIn(at+"."+key, value, now[key])...)
		}
	case []any:
		now, _ := is.([]any)
		for i, value := range was {
			var v any
			if i < len(now) {
				v = now[i]
			}
			lost = append(lost, lostIn(fmt.Sprintf("%s[%d]", at, i), value, v)...)
		}
	case nil, bool, float64, string:
		if zero := was == nil || was == false || was == 0.0 || was == ""; !zero && !cmp.Equal(was, is) {
			lost = append(lost, at)
		}
	}
	slices.Sort(lost)
	return lost
}
