package supervise_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/supervise"
)

func TestNormaliseRecognisesTheSameError(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, first, again string }{
		{
			"go test", "--- FAIL: TestTotal (0.00s)\n    cart_test.go:21: got 3, want 4\nFAIL\tshop\t0.004s",
			"--- FAIL: TestTotal (1.32s)\n    cart_test.go:25: got 3, want 4\nFAIL\tshop\t1.511s",
		},
		{"go build", "./cart.go:14:9: undefined: total", "./cart.go:114:19: undefined: total"},
		{
			"go panic", "panic: boom\n\ngoroutine 7 [running]:\nmain.f(0xc000012345)\n\t/workspace/a.go:3 +0x1d",
			"panic: boom\n\ngoroutine 19 [running]:\nmain.f(0xc0000abcde)\n\t/workspace/a.go:9 +0x2f",
		},
		{
			"tsc", "src/a.ts(14,7): error TS2322: Type 'string' is not assignable.",
			"src/a.ts(9,1): error TS2322: Type 'string' is not assignable.",
		},
		{
			"pytest", "FAILED tests/test_a.py::test_x - assert 3 == 4\n=== 1 failed in 0.12s ===",
			"FAILED tests/test_a.py::test_x - assert 3 == 4\n=== 1 failed in 3.40s ===",
		},
		{
			"python traceback", "  File \"a.py\", line 3, in f\nValueError: bad",
			"  File \"a.py\", line 33, in f\nValueError: bad",
		},
		{
			"temporary directory", "error: open /tmp/TestX123/001/a.txt: not found",
			"error: open /tmp/TestX987/002/a.txt: not found",
		},
		{
			"mac temporary directory", "error: open /var/folders/zz/abc123/T/x1/a.txt: not found",
			"error: open /var/folders/qq/def987/T/x2/a.txt: not found",
		},
		{"timestamp", "2026-01-02T03:04:05.678Z ERROR no such table", "2026-11-12 13:14:15 ERROR no such table"},
		{"port", "Error: connect ECONNREFUSED 127.0.0.1:43121", "Error: connect ECONNREFUSED 127.0.0.1:50999"},
		{
			"uuid", "error: order 3e0a9f0c-1111-4222-8333-abcdefabcdef missing",
			"error: order 0b1a9f0c-1111-4222-8333-0123456789ab missing",
		},
		{
			"hash", "error: object 9fceb02d0ae598e95dc970b74767f19372d61af8 not found",
			"error: object 0c1eb02d0ae598e95dc970b74767f19372d61aff not found",
		},
		{"order", "--- FAIL: TestA (0.00s)\n--- FAIL: TestB (0.00s)", "--- FAIL: TestB (0.00s)\n--- FAIL: TestA (0.00s)"},
		{"colour and carriage returns", "error: boom\nfailed: x", "\x1b[31merror: boom\x1b[0m\r\nfailed: x\r\n"},
		{"chatter around it", "error: boom", "compiling\nstill compiling\nerror: boom\nbye"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, b := supervise.Normalise(tt.first), supervise.Normalise(tt.again)
			if a.Hash == "" || a.Hash != b.Hash {
				t.Errorf("%q and %q are not the same error: %+v, %+v", tt.first, tt.again, a, b)
			}
		})
	}
}

func TestNormaliseTellsErrorsApart(t *testing.T) {
	t.Parallel()
	texts := []string{
		"--- FAIL: TestTotal (0.00s)\n    cart_test.go:21: got 3, want 4",
		"--- FAIL: TestTotal (0.00s)\n    cart_test.go:21: got 2, want 4",
		"--- FAIL: TestSum (0.00s)\n    cart_test.go:21: got 3, want 4",
		"./cart.go:14:9: undefined: total",
		"./cart.go:14:9: undefined: sum",
		"./basket.go:14:9: undefined: sum",
		"src/a.ts(14,7): error TS2322: Type 'string' is not assignable.",
		"src/a.ts(14,7): error TS2304: Cannot find name 'string'.",
		"The last call ended without changing any file.",
	}
	seen := map[string]string{}
	for _, text := range texts {
		hash := supervise.Normalise(text).Hash
		if other, ok := seen[hash]; ok {
			t.Errorf("%q and %q have the same signature", text, other)
		}
		seen[hash] = text
	}
	for _, text := range []string{"", "\n \t\r\n", "\x1b[0m\n"} {
		if diff := cmp.Diff(supervise.Signature{}, supervise.Normalise(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestNormaliseFindsThePlaceAndTheTests(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, output, text, file string
		line                     int
		tests                    []string
	}{
		{
			"go", "--- FAIL: TestTotal (0.00s)\n    --- FAIL: TestTotal/empty (0.00s)\n        cart_test.go:21: got 3, want 4",
			"cart_test.go:21: got 3, want 4", "cart_test.go", 21, []string{"TestTotal", "TestTotal/empty"},
		},
		{"go build", "# shop/cart\n./cart.go:14:9: undefined: total", "./cart.go:14:9: undefined: total", "cart.go", 14, nil},
		{"tsc", "src/cart.ts(14,7): error TS2322: bad", "src/cart.ts(14,7): error TS2322: bad", "src/cart.ts", 14, nil},
		{
			"pytest",
			"E   assert 3 == 4\ntests/test_cart.py:7: AssertionError\nFAILED tests/test_cart.py::test_total - assert 3 == 4",
			"E assert 3 == 4", "tests/test_cart.py", 7, []string{"tests/test_cart.py::test_total"},
		},
		{
			"jest",
			"FAIL src/cart.test.js\n  ● cart › adds up\n    Expected: 4\n      at Object.<anonymous> (node_modules/jest/x.js:1:1)\n      at src/cart.test.js:9:3",
			"Expected: 4", "src/cart.test.js", 9, []string{"cart › adds up"},
		},
		{
			"cargo", "test cart::adds_up ... FAILED\nthread 'cart::adds_up' panicked at src/cart.rs:31:9:",
			"test cart::adds_up ... FAILED", "src/cart.rs", 31, []string{"cart::adds_up"},
		},
		{
			"maven", "[ERROR] /workspace/src/Cart.java:[14,9] cannot find symbol",
			"[ERROR] /workspace/src/Cart.java:[14,9] cannot find symbol", "src/Cart.java", 14, nil,
		},
		{
			"surefire", "[ERROR]   CartTest.addsUp:21 expected: <4> but was: <3>",
			"[ERROR] CartTest.addsUp:21 expected: <4> but was: <3>", "CartTest.addsUp", 21, []string{"CartTest.addsUp"},
		},
		{
			"gradle", "CartTest > addsUp() FAILED\n    AssertionFailedError at CartTest.java:21", "CartTest > addsUp() FAILED",
			"CartTest.java", 21, []string{"CartTest > addsUp()"},
		},
		{
			"rspec", "rspec ./spec/cart_spec.rb:21 # Cart adds up\n1 example, 1 failure",
			"rspec ./spec/cart_spec.rb:21 # Cart adds up", "spec/cart_spec.rb", 21, []string{"./spec/cart_spec.rb:21"},
		},
		{
			"phpunit",
			"1) Shop\\CartTest::testTotal\nFailed asserting that 3 matches expected 4.\n/workspace/tests/CartTest.php:14",
			"Failed asserting that 3 matches expected 4.", "tests/CartTest.php", 14, []string{"Shop\\CartTest::testTotal"},
		},
		{
			"dotnet",
			"Failed Shop.CartTests.AddsUp [12 ms]\nAssert.Equal() Failure\n/workspace/Cart.cs(14,9): error CS0103: bad",
			"Failed Shop.CartTests.AddsUp [12 ms]", "Cart.cs", 14, []string{"Shop.CartTests.AddsUp"},
		},
		{
			"ctest", "The following tests FAILED:\n\t  2 - adds_up (Failed)", "The following tests FAILED:", "", 0,
			[]string{"adds_up"},
		},
		{
			"unittest",
			"FAIL: test_total (test_cart.CartTest)\nTraceback (most recent call last):\n  File \"test_cart.py\", line 9, in test_total\nAssertionError: 3 != 4",
			"AssertionError: 3 != 4", "test_cart.py", 9, []string{"test_total (test_cart.CartTest)"},
		},
		{"no tool at all", "it went\nwrong somehow", "it went", "", 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := supervise.Normalise(tt.output)
			got.Hash = ""
			want := supervise.Signature{Text: tt.text, File: tt.file, Line: tt.line, Tests: tt.tests}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNormaliseIgnoresWhatDiffers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string) string {
			n := rapid.IntRange(1, 99999).Draw(t, label)
			return fmt.Sprintf("--- FAIL: TestTotal (%d.%02ds)\n    cart_test.go:%d: open /tmp/TestTotal%d/00%d/x.txt: not found\n    at 0x%x, 2026-01-%02d %02d:%02d:%02d\n",
				n%100, n%60, n, n, n%10, n, n%28+1, n%24, n%60, n%60)
		}
		if a, b := text("first"), text("again"); supervise.Normalise(a).Hash != supervise.Normalise(b).Hash {
			t.Fatalf("not the same error:\n%s\n%s", a, b)
		}
	})
}

func FuzzNormalise(f *testing.F) {
	f.Add("--- FAIL: TestX (0.00s)\n    x_test.go:3: got 1, want 2\n")
	f.Add("\x1b[31merror\x1b[0m: /tmp/a1/b2: not found\r\n")
	f.Add("error: \xff\xfe\u202e RALPH_DONE 0x1 12:34:56 goroutine 9")
	f.Add(strings.Repeat("error: x\n", 5000))
	f.Fuzz(func(t *testing.T, text string) {
		got := supervise.Normalise(text)
		for _, s := range append([]string{got.Text, got.File, got.Hash}, got.Tests...) {
			if len(s) > 300 || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
				t.Errorf("not fit to be stored: %q", s)
			}
		}
		if len(got.Tests) > 10 || got.Line < 0 || (got.Hash == "") != (got.Text == "") {
			t.Errorf("inconsistent: %+v", got)
		}
		if diff := cmp.Diff(got, supervise.Normalise(strings.ReplaceAll(text, "\n", "\r\n")+"\n\n")); diff != "" &&
			len(text) < 30_000 {
			t.Error(diff)
		}
	})
}
