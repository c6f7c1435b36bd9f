package handlers

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/store"
)

func checkSuiteActions() []string { return []string{"rerequested", "completed"} }

type checkSuitePayload struct {
	common

	CheckSuite struct {
		ID         int64  `json:"id"`
		HeadBranch string `json:"head_branch"` // null for forks
		HeadSHA    string `json:"head_sha"`
		Conclusion string `json:"conclusion"` // null until it has one
		App        struct {
			appPayload

			Slug string `json:"slug"`
		} `json:"app"`
		UpdatedAt time.Time `json:"updated_at"`
	} `json:"check_suite"`
}

// checkSuite decodes the check_suite event: the checks of others that failed on
// a branch, and a wish to run the App's own again.
func (d *Decoder) checkSuite(payload []byte) (Intent, error) {
	var p checkSuitePayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	var r required
	r.need(p.CheckSuite.ID > 0, "check_suite.id")
	p.common.check(&r)
	if err := r.err(); err != nil {
		return nil, err
	}
	suite, subject := p.CheckSuite, p.subject()
	if subject.Head = suite.HeadBranch; subject.Head == "" {
		return nil, nil
	}
	ours := suite.App.ID == d.App
	switch {
	case p.Action == "rerequested" && ours:
		return RetryIntent{Subject: subject}, nil
	case p.Action == "completed" && !ours && (suite.Conclusion == "failure" || suite.Conclusion == "timed_out"):
		return FeedbackIntent{
			Subject: subject, Kind: store.InputChecks,
			Source:   fmt.Sprintf("check_suite:%d:%s", suite.ID, suite.UpdatedAt.UTC().Format(time.RFC3339)),
			SourceID: suite.ID, App: suite.App.ID,
			Detail: &Checks{SuiteID: suite.ID, Head: suite.HeadSHA, Conclusion: suite.Conclusion, App: suite.App.Slug},
		}, nil
	default:
		return nil, nil
	}
}
