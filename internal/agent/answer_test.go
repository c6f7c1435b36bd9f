package agent

import (
	"testing"
)

// TestAnswersOfProviders: what an answer on the wire means, and whether the next one can
// be another.
func TestAnswersOfProviders(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		body   string
		why    Outcome
		says   string
		// ends and endsLater say whether it ends a call before and after work.
		ends, endsLater bool
	}{
		"wrong key": {
			401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, OutcomeAuth,
			"invalid x-api-key", true, true,
		},
		"wrong key of Google": {
			400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}`,
			OutcomeAuth, "API key not valid. Please pass a valid API key.", true, true,
		},
		"a page that forbids": {403, "<html>", OutcomeAuth, "the model API answered 403", true, false},
		"model":               {404, `{"error":{"type":"not_found_error","message":"model: x"}}`, OutcomeModel, "model: x", true, false},
		"payment":             {402, "", OutcomeCredit, "the model API answered 402", true, true},
		"credit": {
			400, `{"error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}`,
			OutcomeCredit, "Your credit balance is too low to access the API.", true, true,
		},
		"no quota": {
			429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`,
			OutcomeCredit, "You exceeded your current quota", true, true,
		},
		"a limit of Google": {
			429, `{"error":{"code":429,"message":"You exceeded your current quota, retry in 30s","status":"RESOURCE_EXHAUSTED"}}`,
			OutcomeRateLimited, "You exceeded your current quota, retry in 30s", false, false,
		},
		"overloaded": {529, `{"error":{"type":"overloaded_error","message":"Overloaded"}}`, OutcomeRateLimited, "Overloaded", false, false},
		"too long": {
			400, `{"error":{"type":"invalid_request_error","message":"prompt is too long: 3 tokens > 2 maximum"}}`, OutcomeContext,
			"prompt is too long: 3 tokens > 2 maximum", true, false,
		},
		"down":           {502, "", OutcomeUnavailable, "the model API answered 502", false, false},
		"out of reach":   {0, "dial tcp: no such host", OutcomeUnavailable, "dial tcp: no such host", false, false},
		"its own fault":  {400, `{"error":{"type":"invalid_request_error","message":"tools.0: bad"}}`, OutcomeErrored, "tools.0: bad", false, false},
		"what it quotes": {400, `{"error":{"message":"unexpected \"credit balance is too low\""}}`, OutcomeErrored, `unexpected "credit balance is too low"`, false, false},
	} {
		why, says := ReadAnswer(tt.status, tt.body)
		if why != tt.why || says != tt.says {
			t.Errorf("%s: %s, %q", name, why, says)
		}
		if ends, later := EndsCall(tt.status, tt.body, false), EndsCall(tt.status, tt.body, true); ends != tt.ends || later != tt.endsLater {
			t.Errorf("%s ends a call: %v, later %v", name, ends, later)
		}
	}
	if OutcomeUnavailable.DoFirst() != "" || OutcomeRateLimited.DoFirst() != "" || OutcomeErrored.DoFirst() != "" ||
		OutcomeAuth.DoFirst() == "" || OutcomeMissing.DoFirst() == "" {
		t.Error("what a person has to do something about")
	}
}
