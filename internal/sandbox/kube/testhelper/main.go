// Command testhelper is the entry point of the image that the tests give a cluster in
// place of the bot's: the shim, and the commands of package sandboxtest that a shell
// cannot play.
package main

import (
	"os"
	"syscall"

	"github.com/org/ralph-action/internal/sandbox/kube/podshim"
	"github.com/org/ralph-action/internal/sandbox/sandboxtest"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "shim" && os.Args[2] == "pod" {
		syscall.Exit(podshim.Main(os.Args[3:]))
	}
	os.Exit(sandboxtest.Play(os.Args[1:]))
}
