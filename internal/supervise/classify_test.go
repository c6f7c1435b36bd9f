package supervise_test

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/supervise"
)

func TestClassifyReadsToolChains(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, gate, output string
		want               supervise.FailureClass
	}{
		{
			"go build", "go test",
			"# example.com/shop/cart\n./cart.go:14:9: undefined: total\nFAIL\texample.com/shop/cart [build failed]\nFAIL\n",
			supervise.FailCompile,
		},
		{
			"go vet type error", "go vet", "# example.com/shop\nvet: ./main.go:9:2: undefined: frobnicate\n",
			supervise.FailCompile,
		},
		{
			"go missing module", "go test",
			"main.go:4:2: no required module provides package github.com/acme/x; to add it:\n\tgo get github.com/acme/x\n",
			supervise.FailCompile,
		},
		{
			"go test", "go test",
			"--- FAIL: TestTotal (0.00s)\n    cart_test.go:21: got 3, want 4\nFAIL\nFAIL\texample.com/shop/cart\t0.004s\n",
			supervise.FailTest,
		},
		{
			"go subtest", "go test",
			"ok  \texample.com/a\t0.1s\n    --- FAIL: TestTotal/empty (0.00s)\n        cart_test.go:9: boom\n",
			supervise.FailTest,
		},
		{
			"go panic", "go test",
			"panic: runtime error: index out of range [3] with length 3 [recovered]\n\ngoroutine 7 [running]:\n",
			supervise.FailTest,
		},
		{
			"go test hangs", "go test", "panic: test timed out after 10m0s\nrunning tests:\n\tTestLoop (10m0s)\n",
			supervise.FailTimeout,
		},
		{
			"go vet finding", "go vet",
			"# example.com/shop\n./main.go:12:2: fmt.Printf format %d has arg name of wrong type string\n", supervise.FailLint,
		},
		{
			"golangci-lint", "make lint", "cart.go:31:6: func `unusedHelper` is unused (unused)\n1 issues:\n* unused: 1\n",
			supervise.FailLint,
		},
		{
			"tsc", "npm run build", "src/cart.ts(14,7): error TS2322: Type 'string' is not assignable to type 'number'.\n",
			supervise.FailCompile,
		},
		{
			"tsc pretty", "typecheck",
			"src/cart.ts:14:7 - error TS2304: Cannot find name 'totl'.\n\nFound 1 error in src/cart.ts:14\n",
			supervise.FailCompile,
		},
		{
			"eslint", "npm run lint",
			"/workspace/src/cart.js\n   3:10  error  'total' is defined but never used  no-unused-vars\n\n✖ 1 problem (1 error, 0 warnings)\n",
			supervise.FailLint,
		},
		{
			"prettier", "npm run format",
			"Checking formatting...\n[warn] src/cart.js\n[warn] Code style issues found in the above file. Run Prettier with --write to fix.\n",
			supervise.FailLint,
		},
		{
			"jest", "npm test",
			"FAIL src/cart.test.js\n  ● cart › adds up\n\n    expect(received).toBe(expected)\n\n    Expected: 4\n    Received: 3\n\nTests:       1 failed, 12 passed, 13 total\n",
			supervise.FailTest,
		},
		{
			"jest cannot load", "npm test",
			"FAIL src/cart.test.js\n  ● Test suite failed to run\n\n    Cannot find module './totl' from 'src/cart.js'\n",
			supervise.FailCompile,
		},
		{
			"vitest", "npm test",
			" FAIL  src/cart.test.ts > cart > adds up\nAssertionError: expected 3 to be 4 // Object.is equality\n",
			supervise.FailTest,
		},
		{"node test runner", "npm test", "not ok 3 - adds up\n  ---\n  duration_ms: 1.2\n", supervise.FailTest},
		{
			"pytest", "pytest",
			"    def test_total():\n>       assert total([1, 2]) == 4\nE       assert 3 == 4\n\ntests/test_cart.py:7: AssertionError\n=== short test summary info ===\nFAILED tests/test_cart.py::test_total - assert 3 == 4\n=== 1 failed, 4 passed in 0.12s ===\n",
			supervise.FailTest,
		},
		{
			"pytest cannot collect", "pytest",
			"____ ERROR collecting tests/test_cart.py ____\nImportError while importing test module '/workspace/tests/test_cart.py'.\nE   ModuleNotFoundError: No module named 'cart'\n!!!! Interrupted: 1 error during collection !!!!\n",
			supervise.FailCompile,
		},
		{
			"unittest", "make test",
			"FAIL: test_total (test_cart.CartTest)\n----\nTraceback (most recent call last):\n  File \"/workspace/test_cart.py\", line 9, in test_total\nAssertionError: 3 != 4\n",
			supervise.FailTest,
		},
		{
			"mypy", "mypy",
			"cart.py:12: error: Incompatible return value type (got \"str\", expected \"int\")  [return-value]\nFound 1 error in 1 file (checked 3 source files)\n",
			supervise.FailCompile,
		},
		{"ruff", "ruff check", "cart.py:1:8: F401 [*] `os` imported but unused\nFound 1 error.\n", supervise.FailLint},
		{"black", "black --check .", "would reformat cart.py\n\nOh no!\n1 file would be reformatted.\n", supervise.FailLint},
		{
			"cargo build", "cargo test",
			"error[E0425]: cannot find value `totl` in this scope\n --> src/cart.rs:14:9\n\nerror: could not compile `shop` (lib) due to 1 previous error\n",
			supervise.FailCompile,
		},
		{
			"cargo test", "cargo test",
			"test cart::adds_up ... FAILED\n\nthread 'cart::adds_up' panicked at src/cart.rs:31:9:\nassertion `left == right` failed\n\ntest result: FAILED. 11 passed; 1 failed\n",
			supervise.FailTest,
		},
		{
			"clippy", "cargo clippy",
			"error: this loop could be written as a `for` loop\n  --> src/cart.rs:9:5\n  = note: `-D clippy::while-let-loop` implied by `-D warnings`\n",
			supervise.FailLint,
		},
		{
			"maven compile", "mvn -q verify",
			"[ERROR] COMPILATION ERROR : \n[ERROR] /workspace/src/main/java/shop/Cart.java:[14,9] cannot find symbol\n",
			supervise.FailCompile,
		},
		{
			"maven test", "mvn -q verify",
			"[ERROR] Tests run: 12, Failures: 1, Errors: 0, Skipped: 0\n[ERROR] Failures: \n[ERROR]   CartTest.addsUp:21 expected: <4> but was: <3>\n",
			supervise.FailTest,
		},
		{
			"javac", "make build", "src/Cart.java:14: error: ';' expected\n        int total = 3\n1 error\n",
			supervise.FailCompile,
		},
		{
			"gradle test", "./gradlew test",
			"CartTest > addsUp() FAILED\n    org.opentest4j.AssertionFailedError at CartTest.java:21\n\nThere were failing tests. See the report\n",
			supervise.FailTest,
		},
		{
			"gradle compile", "./gradlew test",
			"e: file:///workspace/src/main/kotlin/Cart.kt:14:9 Unresolved reference: totl\nExecution failed for task ':compileKotlin'.\n",
			supervise.FailCompile,
		},
		{
			"rspec", "bundle exec rspec",
			"Failures:\n\n  1) Cart adds up\n     Failure/Error: expect(cart.total).to eq(4)\n\n12 examples, 1 failure\n\nrspec ./spec/cart_spec.rb:21 # Cart adds up\n",
			supervise.FailTest,
		},
		{
			"rspec cannot load", "bundle exec rspec",
			"An error occurred while loading ./spec/cart_spec.rb.\nLoadError:\n  cannot load such file -- cart\n0 examples, 0 failures, 1 error occurred outside of examples\n",
			supervise.FailCompile,
		},
		{
			"rubocop", "bundle exec rubocop",
			"lib/cart.rb:3:1: C: Style/FrozenStringLiteralComment: Missing frozen string literal comment.\n12 files inspected, 1 offense detected\n",
			supervise.FailLint,
		},
		{
			"phpunit", "vendor/bin/phpunit",
			"There was 1 failure:\n\n1) Shop\\CartTest::testTotal\nFailed asserting that 3 matches expected 4.\n\nFAILURES!\nTests: 12, Assertions: 30, Failures: 1.\n",
			supervise.FailTest,
		},
		{
			"php syntax", "vendor/bin/phpunit",
			"PHP Parse error:  syntax error, unexpected token \"}\" in /workspace/src/Cart.php on line 14\n",
			supervise.FailCompile,
		},
		{
			"dotnet build", "dotnet test",
			"/workspace/Cart.cs(14,9): error CS0103: The name 'totl' does not exist in the current context [/workspace/Shop.csproj]\n",
			supervise.FailCompile,
		},
		{
			"dotnet test", "dotnet test",
			"  Failed Shop.CartTests.AddsUp [12 ms]\n  Error Message:\n   Assert.Equal() Failure\n\nFailed!  - Failed:     1, Passed:    11, Skipped:     0\n",
			supervise.FailTest,
		},
		{
			"gcc", "make",
			"cart.c:14:9: error: 'totl' undeclared (first use in this function)\nmake: *** [Makefile:9: cart.o] Error 1\n",
			supervise.FailCompile,
		},
		{
			"linker", "cmake --build build",
			"/usr/bin/ld: cart.o: in function `main':\ncart.c:(.text+0x9): undefined reference to `total'\ncollect2: error: ld returned 1 exit status\n",
			supervise.FailCompile,
		},
		{
			"ctest", "ctest",
			"67% tests passed, 1 tests failed out of 3\n\nThe following tests FAILED:\n\t  2 - adds_up (Failed)\n",
			supervise.FailTest,
		},
		{"make without rule", "make check", "make: *** No rule to make target 'check'.  Stop.\n", supervise.FailCrash},
		{"tool missing", "make lintless", "sh: 1: frobnicate: not found\n", supervise.FailCrash},
		{"make test says little", "make test", "make: *** [Makefile:3: test] Error 1\n", supervise.FailTest},
		{"build says little", "make build", "something went wrong\n", supervise.FailCompile},
		{"lint says little", "lint", "bad\n", supervise.FailLint},
		{"nothing to go by", "./ci.sh", "bad\n", supervise.FailUnknown},
		{"silent", "./ci.sh", "", supervise.FailUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for variant, output := range map[string]string{
				"plain":    tt.output,
				"coloured": "\x1b[31m" + tt.output + "\x1b[0m",
				"crlf":     strings.ReplaceAll(tt.output, "\n", "\r\n"),
			} {
				got := supervise.Classify(supervise.Failure{
					Outcome: supervise.Completed, Gate: tt.gate, Command: tt.gate, ExitCode: 1, Reason: "exited", Output: output,
				})
				if got != tt.want {
					t.Errorf("%s: got %s, want %s", variant, got, tt.want)
				}
			}
		})
	}
}

func TestClassifyByHowItEnded(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		failure supervise.Failure
		want    supervise.FailureClass
	}{
		{"rate limit", supervise.Failure{Outcome: supervise.RateLimited}, supervise.FailRateLimit},
		{"crash", supervise.Failure{Outcome: supervise.Broken, Unchanged: true}, supervise.FailCrash},
		{"agent timeout", supervise.Failure{Outcome: supervise.TimedOut, Unchanged: true}, supervise.FailTimeout},
		{
			"check timeout", supervise.Failure{Gate: "go test", Reason: "wall_timeout", Output: "--- FAIL: TestX"},
			supervise.FailTimeout,
		},
		{"check killed", supervise.Failure{Gate: "go test", Reason: "signal: killed", ExitCode: -1}, supervise.FailCrash},
		{"check not there", supervise.Failure{Gate: "go test", Reason: "exited", ExitCode: 127}, supervise.FailCrash},
		{"refused paths", supervise.Failure{Outcome: supervise.Completed, Refused: true}, supervise.FailRefused},
		{
			"permission",
			supervise.Failure{Outcome: supervise.Completed, Final: "Permission was denied for the edit.", Unchanged: true},
			supervise.FailRefused,
		},
		{"empty", supervise.Failure{Outcome: supervise.Completed, Final: "All set.", Unchanged: true}, supervise.FailEmpty},
		{
			"too complex in its words",
			supervise.Failure{Outcome: supervise.Completed, Final: "This task is too large to do safely in one go."},
			supervise.FailTooComplex,
		},
		{
			"out of turns",
			supervise.Failure{Outcome: supervise.GaveUp, Detail: "error_max_turns: reached maximum number of turns (30)"},
			supervise.FailTooComplex,
		},
		{
			"missing context",
			supervise.Failure{
				Outcome: supervise.Completed, Final: "I could not find the schema of the orders table.", Unchanged: true,
			},
			supervise.FailMissingContext,
		},
		{
			"gave up for no known reason", supervise.Failure{Outcome: supervise.GaveUp, Detail: "something"},
			supervise.FailUnknown,
		},
		{
			"tools beat words",
			supervise.Failure{
				Outcome: supervise.Completed, Final: "This task is too large.", Gate: "go test", Reason: "exited", ExitCode: 1,
				Output: "--- FAIL: TestX (0.00s)",
			},
			supervise.FailTest,
		},
		{
			"words in code do not count",
			supervise.Failure{
				Outcome: supervise.Completed, Final: "Done:\n```\n// this task is too large\n```\n", Unchanged: true,
			},
			supervise.FailEmpty,
		},
	}
	got := map[supervise.FailureClass]bool{}
	for _, tt := range tests {
		class := supervise.Classify(tt.failure)
		got[class] = true
		if class != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, class, tt.want)
		}
	}
	for _, c := range supervise.FailureClasses() {
		if c != supervise.FailCompile && c != supervise.FailLint && !got[c] {
			t.Errorf("no case for class %s", c)
		}
	}
}

func FuzzClassify(f *testing.F) {
	f.Add("go test", "--- FAIL: TestX (0.00s)\n", "I could not find it.", 1)
	f.Add("npm run lint", "\x1b[31m✖ 1 problem (1 error, 0 warnings)\x1b[0m", "", 2)
	f.Add("", "", "```\nI am stuck", 0)
	known := map[supervise.FailureClass]bool{}
	for _, c := range supervise.FailureClasses() {
		known[c] = true
	}
	f.Fuzz(func(t *testing.T, gate, output, final string, exit int) {
		failure := supervise.Failure{
			Outcome: supervise.Completed, Gate: gate, Command: gate, Output: output, Final: final, ExitCode: exit,
		}
		got := supervise.Classify(failure)
		if !known[got] {
			t.Errorf("unknown class %q", got)
		}
		failure.Output = "\x1b[1m" + output + "\x1b[0m"
		if again := supervise.Classify(failure); len(output) < 1000 && again != got && !strings.ContainsRune(output, 0x1b) {
			t.Errorf("colour makes it %q instead of %q", again, got)
		}
	})
}
