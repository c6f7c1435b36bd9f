package ghsim_test

import (
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain looks for goroutines left behind: a closed GitHub serves and
// delivers nothing.
func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}
