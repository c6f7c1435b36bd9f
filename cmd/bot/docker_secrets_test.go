//go:build docker

package main

import (
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
)

// TestE5SecretsOfOurs: an agent that has come by a secret of the bot's writes it
// into its work, its final message, its notes and what it prints, in forms that are
// hard to tell. Work that holds one is sent back, and nothing that is
// published or kept holds it.
func TestE5SecretsOfOurs(t *testing.T) {
	t.Parallel()
	const key = "K7w2Qx9LmT4vB8nR3pZ6cY1dF5gH0jSaUe"
	parts := func(between string, size int) string {
		var all []string
		for part := range slices.Chunk([]byte(key), size) {
			all = append(all, string(part))
		}
		return strings.Join(all, between)
	}
	forms := []string{
		key,
		base64.StdEncoding.EncodeToString([]byte("the key is " + key + ", as you asked")),
		hex.EncodeToString([]byte(key)),
		key[4:],
		parts("\n", 9),
		parts("\" +\n\t\"", 11),
		"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + key + "\x00IEND",
	}
	// A task for a few forms each: first it holds them, then it does not.
	const each = 4
	var plan strings.Builder
	tasks := map[string][]map[string]any{}
	for i := 0; i < len(forms); i += each {
		name := fmt.Sprintf("part%d", i/each+1)
		fmt.Fprintf(&plan, "- [ ] Write %s\n", name)
		held, use := map[string]string{"data/" + name + "-" + key + ".txt": "harmless\n"}, []map[string]any{}
		for j, form := range forms[i:min(i+each, len(forms))] {
			held[fmt.Sprintf("f%d", i+j+1)] = "key: " + form + "\n"
			use = append(use, map[string]any{"tool": "Bash", "command": "echo " + form})
		}
		all := strings.Join(forms[i:min(i+each, len(forms))], ", ")
		first := map[string]any{
			"files": held, "use": use, "say": "It is one of " + all, "learn": strings.ReplaceAll("one of "+all, "\n", " "),
		}
		second := map[string]any{
			"files": map[string]string{name + ".txt": "harmless\n"}, "delete": slices.Sorted(maps.Keys(held)),
			"say": first["say"], "learn": first["learn"],
		}
		tasks[name] = []map[string]any{first, second}
	}
	// JSON is YAML, too.
	script, err := json.Marshal(map[string]any{"tasks": tasks, "default": []map[string]any{{"misbehave": "nothing"}}})
	if err != nil {
		t.Fatal(err)
	}
	st := newDockerStage(t, setting{
		script: string(script), change: func(c *config.Server) { c.Limits.MaxIterations = 40 },
	})
	exe := builtBot(t)
	e := newEngine(t, st.dir, nil)
	p := st.serveProgram(exe, "DEPLOY_TOKEN="+key)
	state := st.ended(st.openStore(), st.label("Write parts", plan.String()))
	if state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	p.stop(t)

	// Each was sent back, for all that it held.
	var sentBack strings.Builder
	for _, h := range state.History {
		if !h.Landed {
			sentBack.WriteString(h.Note)
		}
	}
	for i := range forms {
		if want := fmt.Sprintf("- f%d:", i+1); !strings.Contains(sentBack.String(), want) {
			t.Errorf("nobody was told of %s\n%s", want, sentBack.String())
		}
	}
	if want := "the name data/part1-***.txt holds what looks like a secret (known_secret)"; !strings.Contains(sentBack.String(), want) {
		t.Errorf("nobody says that %s:\n%s", want, sentBack.String())
	}

	shown := map[string]string{"the branch": fmt.Sprint(st.contents("ralph/1"))}
	about := func(name string, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		shown[name] = string(b)
	}
	about("the pull request", st.onlyPR())
	about("the issue", st.issue(1).Comments)
	checks, err := st.sim.CheckRuns(person, repoOf)
	if err != nil {
		t.Fatal(err)
	}
	about("the check runs", checks)
	// The state names the files that were refused as they are called, so that the
	// key is in it in one piece. It is the operator's; all else of it is masked.
	asNamed := func(text string) string { return strings.ReplaceAll(text, "-"+key+".txt", "") }
	about("the state", state)
	shown["the state"] = asNamed(shown["the state"])
	// By its tables: in the file's bytes a name may be cut by the end of a page.
	shown["the database"] = asNamed(tables(t, filepath.Join(st.config.DataDir, "ralph.db")))
	heads, err := filepath.Glob(filepath.Join(st.config.DataDir, "mirrors", "*", "HEAD"))
	if err != nil || len(heads) == 0 {
		t.Fatalf("mirrors %v, %v", heads, err)
	}
	for _, head := range heads {
		out, err := gitCommand(t, filepath.Dir(head), "log", "-p", "--all").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		shown["a commit"] += string(out)
	}
	err = filepath.WalkDir(filepath.Join(st.config.DataDir, "runs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			t.Errorf("the run left %s", path)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
	for i, form := range forms {
		core := lettersOf(form)
		core = core[len(core)/2-8 : len(core)/2+8]
		for name, text := range shown {
			if strings.Contains(lettersOf(text), core) {
				t.Errorf("%s holds form %d of the key, %q", name, i+1, form)
			}
		}
	}
	e.nothingLeft(exe)
}

// lettersOf is a text without all that is neither letter nor digit, in which a key
// can be found however it is broken up.
func lettersOf(text string) string {
	// What JSON writes for the ends of lines are no letters of the text.
	text = strings.NewReplacer(`\n`, "", `\t`, "", `\r`, "").Replace(text)
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return -1
	}, text)
}

// tables is all that a database holds.
func tables(t *testing.T, file string) string {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	query := func(q string) (rows [][]any) {
		got, err := db.QueryContext(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = got.Close() }()
		columns, err := got.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for got.Next() {
			row := make([]any, len(columns))
			into := make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			if err := got.Scan(into...); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row)
		}
		if err := got.Err(); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	var b strings.Builder
	for _, table := range query("SELECT name FROM sqlite_master WHERE type = 'table'") {
		for _, row := range query(fmt.Sprintf("SELECT * FROM %q", table[0])) {
			for _, v := range row {
				fmt.Fprintf(&b, "%s\n", v)
			}
		}
	}
	if b.Len() == 0 {
		t.Fatal("the database is empty")
	}
	return b.String()
}
