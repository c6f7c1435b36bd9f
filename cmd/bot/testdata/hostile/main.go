// Command hostile is a program in the place of the claude command line that
// does what the shell script says that a test appended to it, in the container,
// with what the real one is given there. Around the script it reports as the
// real one does.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"github.com/org/ralph-action/internal/agent"
)

// noResult is the script's exit code that keeps the program from reporting.
const noResult = 77

func main() {
	code, err := act()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func act() (int, error) {
	script, err := appended()
	if err != nil {
		return 0, err
	}
	prompt, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile("/tmp/prompt", prompt, 0o600); err != nil {
		return 0, err
	}
	a := agent.ReadAssignment(string(prompt))
	fmt.Println(`{"type":"system","subtype":"init","cwd":"/workspace","model":"scripted","tools":["Bash"],"mcp_servers":[],"permissionMode":"bypassPermissions","apiKeySource":"none","claude_code_version":"hostile"}`)
	cmd := exec.Command("/bin/bash", "-s")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(script), os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "TASK="+a.Task, "TITLE="+a.Title, "ATTEMPT="+strconv.Itoa(a.Attempt),
		"PROMPT=/tmp/prompt", "PROGRESS="+a.ProgressFile)
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if exit.ExitCode() == noResult {
			return 0, nil
		}
		return max(exit.ExitCode(), 1), nil
	}
	if err != nil {
		return 0, err
	}
	fmt.Println(`{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"RALPH_RESULT: done","total_cost_usd":0,"permission_denials":[],"usage":{"input_tokens":1,"output_tokens":1}}`)
	return 0, nil
}

// appended is the script: the last eight bytes of the program are its length.
func appended() ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	all, err := os.ReadFile(self)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint64(all[len(all)-8:])
	if n > uint64(len(all)) {
		return nil, errors.New("no script was appended")
	}
	return all[len(all)-8-int(n) : len(all)-8], nil
}
