package notify_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/org/ralph-action/internal/notify"
)

// TestMain lets the test binary be the process that sends.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == notify.SendCommand {
		if err := notify.Send(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
