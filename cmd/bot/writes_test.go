package main

import (
	"net/http"
	"strings"
)

const oneTask = "model: scripted\ndefault: [{files: {one.txt: \"1\\n\"}, say: done}]\n"

// writes are the calls that changed something on GitHub, each as what it did.
func (st *stage) writes() (got []string) {
	st.t.Helper()
	for _, c := range st.sim.Calls() {
		if c.Method != http.MethodGet && c.Method != http.MethodHead && !strings.Contains(c.Path, "/access_tokens") &&
			c.Kind != "git" && !strings.HasPrefix(c.Route, "query") && !strings.HasPrefix(c.Caller, "user:") {
			got = append(got, c.Method+" "+c.Route)
		}
	}
	return got
}
