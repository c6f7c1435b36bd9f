package main

import (
	"strings"

	"github.com/org/ralph-action/internal/ghsim"
)

// checks are the check runs on the commits of the one pull request, told by
// conclusion, in the order of the commits. Each commit has at most one.
func (st *stage) checks() (conclusions []string, head ghsim.CheckRun) {
	st.t.Helper()
	all, err := st.sim.CheckRuns(person, repoOf)
	if err != nil {
		st.t.Fatal(err)
	}
	pr := st.onlyPR()
	for _, c := range pr.Commits {
		var said []string
		for _, check := range all {
			if check.HeadOID == c.OID {
				said = append(said, check.Status+" "+check.Conclusion)
			}
			if check.HeadOID == pr.HeadOID {
				head = check
			}
		}
		conclusions = append(conclusions, strings.Join(said, ", "))
	}
	return conclusions, head
}
