// Command helper is the program that the container tests mount into their
// containers: the shim, and the commands of package sandboxtest that a shell
// cannot play. It is built without cgo, as the bot is.
package main

import (
	"os"

	"github.com/org/ralph-action/internal/sandbox/sandboxtest"
)

func main() { os.Exit(sandboxtest.Play(os.Args[1:])) }
