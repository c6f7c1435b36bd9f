package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/store"
)

// checkWorld holds what is on GitHub, in the database, on the disk and among the
// processes against each other, where every run has ended and no server runs: nothing
// is there without its record, nothing is recorded that is not there, nothing is left.
func (st *stage) checkWorld() {
	st.t.Helper()
	must := func(err error) {
		st.t.Helper()
		if err != nil {
			st.t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", st.config.Database())
	must(err)
	defer func() { must(db.Close()) }()
	branches := map[string]bool{"main": true}
	recorded := map[string][]string{} // by kind of effect
	read := func(query string, take func(a, b string)) {
		st.t.Helper()
		rows, err := db.QueryContext(st.t.Context(), query)
		must(err)
		defer func() { must(rows.Close()) }()
		for rows.Next() {
			var a, b string
			must(rows.Scan(&a, &b))
			take(a, b)
		}
		must(rows.Err())
	}
	read(`SELECT id, issue_number || ' ' || active FROM runs`, func(id, about string) {
		issue, active, _ := strings.Cut(about, " ")
		branches["ralph/"+issue] = true
		if active != "0" {
			st.t.Errorf("run %s has not ended", id)
		}
	})
	read(`SELECT kind, result FROM effects WHERE status = 'done'`, func(kind, result string) {
		var of struct {
			OID        string
			ID, Number json.RawMessage
		}
		must(json.Unmarshal([]byte(result), &of))
		recorded[kind] = append(recorded[kind], strings.Trim(of.OID+string(of.ID)+string(of.Number), `"`))
	})
	there := map[string][]string{}
	prs, err := st.sim.PRs(person, repoOf)
	must(err)
	for _, pr := range prs {
		there["pr"] = append(there["pr"], fmt.Sprint(pr.Number))
		for _, c := range pr.Commits {
			if strings.Contains(c.Body, "Ralph-Run: ") {
				there["commit"] = append(there["commit"], c.OID)
			}
		}
	}
	issues, err := st.sim.Issues(person, repoOf)
	must(err)
	for _, issue := range issues { // pull requests are among them
		there["comment"] = append(there["comment"], st.botComments(issue)...)
	}
	for _, kind := range []string{"pr", "commit", "comment"} {
		slices.Sort(there[kind])
		slices.Sort(recorded[kind])
		if diff := cmp.Diff(slices.Compact(recorded[kind]), there[kind]); diff != "" {
			st.t.Errorf("what is recorded of each %s is not what is on GitHub: %s", kind, diff)
		}
	}
	on, err := st.sim.Branches(person, repoOf)
	must(err)
	for name := range on {
		if !branches[name] {
			st.t.Errorf("the branch %s is of no run", name)
		}
	}
	for _, left := range st.leftovers() {
		st.t.Errorf("still there: %s", left)
	}
	for _, p := range processesOf(st.dir) {
		st.t.Errorf("still running: %s", p)
	}
}

// botComments are the numbers of what the App itself has said.
func (st *stage) botComments(issue ghsim.Issue) (ids []string) {
	for _, c := range issue.Comments {
		if c.User == st.app.BotLogin {
			ids = append(ids, fmt.Sprint(c.ID))
		}
	}
	return ids
}

// processesOf lists the processes that name a directory in their command line, or work
// below it.
func processesOf(dir string) (found []string) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil // no Linux
	}
	for _, e := range entries {
		if strings.Trim(e.Name(), "0123456789") != "" || e.Name() == fmt.Sprint(os.Getpid()) {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		at, _ := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		if strings.Contains(string(line), dir) || strings.HasPrefix(at, dir) {
			found = append(found, e.Name()+": "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// leftovers are the files and directories of runs and processes that have ended.
func (st *stage) leftovers() (left []string) {
	st.t.Helper()
	for _, dir := range []string{"runs", "gw", config.DatabaseFile + ".alive"} {
		dir = filepath.Join(st.config.DataDir, dir)
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			st.t.Fatal(err)
		}
		for _, e := range entries {
			left = append(left, filepath.Join(dir, e.Name()))
		}
	}
	return left
}

// settled waits until nothing is left to be dealt with or to be repeated.
func (st *stage) settled(s *serving) {
	st.t.Helper()
	st.processed(s)
	st.watchOthers() // what is repeated in vain rings no bell
	const query = `SELECT count(*) FROM effects WHERE status = 'intended'`
	st.await("all effects to be made", func() bool {
		var left int
		if err := s.store.InTx(st.t.Context(), func(tx *store.Tx) error {
			return tx.QueryRowContext(st.t.Context(), query).Scan(&left)
		}); err != nil {
			st.t.Fatal(err)
		}
		return left == 0
	})
}

// complete holds what people see of a run that went well against what they are to see:
// its commits, the last of which closes the work, a pull request that is no draft, one
// check run on each commit, a reaction and a label.
func (st *stage) complete(issue ghsim.Issue, commits ...string) {
	st.t.Helper()
	prs, err := st.sim.PRs(person, repoOf)
	if err != nil {
		st.t.Fatal(err)
	}
	branch := fmt.Sprintf("ralph/%d", issue.Number)
	prs = slices.DeleteFunc(prs, func(pr ghsim.PR) bool { return pr.Head != branch })
	if len(prs) != 1 {
		st.t.Errorf("#%d has %d pull requests", issue.Number, len(prs))
		return
	}
	pr := prs[0]
	if got := subjects(pr.Commits); len(got) != len(commits)+1 || !slices.Equal(got[:len(commits)], commits) {
		st.t.Errorf("#%d: commits %q", issue.Number, got)
	}
	if pr.Draft {
		st.t.Errorf("#%d: the pull request is a draft", issue.Number)
	}
	all, err := st.sim.CheckRuns(person, repoOf)
	if err != nil {
		st.t.Fatal(err)
	}
	for _, c := range pr.Commits {
		var said []string
		for _, check := range all {
			if check.HeadOID == c.OID {
				said = append(said, check.Status+" "+check.Conclusion)
			}
		}
		var want []string
		if c.OID == pr.HeadOID {
			want = []string{"completed success"}
		}
		if !slices.Equal(said, want) {
			st.t.Errorf("#%d: check runs on %s: %q, want %q", issue.Number, c.OID, said, want)
		}
	}
	if got := st.issue(issue.Number); !slices.Contains(got.Labels, "ralph:done") || len(got.Reactions) > 1 {
		st.t.Errorf("#%d: labels %q, reactions %v", issue.Number, got.Labels, got.Reactions)
	}
}
