package ghsim_test

import (
	"net/http"
	"testing"

	"github.com/org/ralph-action/internal/ghsim"
)

// TestGitHubDoesNotKnow asks for what GitHub has and this package does not serve: the answer is a 404, never a
// made-up success.
func TestGitHubDoesNotKnow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	for _, path := range []string{
		"/api/v3/user", "/api/v3/repos/a/b", "/api/v3/repos/a%2Fb", "/api/v3/../_sim/calls", "/_sim/nothing",
		"/acme/widgets.git/objects/info/packs",
	} {
		if resp, _ := w.do(t, http.MethodGet, path, "", nil); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}
