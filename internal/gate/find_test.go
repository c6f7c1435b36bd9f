package gate

import (
	"bytes"
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Properties are tried on the same values each time; `make seeds` draws others.
var _ = flag.Set("rapid.seed", "1")

// expressions are all that files are searched with.
func expressions() []*expression {
	all := []*expression{excluding, multiplied}
	byEnd := languages()
	for _, ext := range slices.Sorted(maps.Keys(byEnd)) {
		l := byEnd[ext]
		all = append(all, l.test, l.skip, l.assert)
		if l.only != nil {
			all = append(all, l.only)
		}
	}
	for _, s := range switches {
		if s.line != nil {
			all = append(all, s.line)
		}
		if s.unless != nil {
			all = append(all, s.unless)
		}
	}
	return all
}

// pieces are what hostile and honest files are made of here.
var pieces = strings.Split(
	`it|it(|test("a",|'b')|xit|xdescribe (|.skip|describe.only|fit(|expect(|assert|it.each([|])("c", |@Test|@ParameterizedTest
 void |fun a(|{|;|@Ignore|@Disabled|verify (|TEST(A, B)|SCENARIO|DISABLED_|[.]|EXPECT_EQ(|func TestA(|t.Skip(|//go:build x
|t.Errorf(|assert.Equal(|def test_a|async def test_b (|@skip|pytest.skip(|assert x|#[test]|#[tokio::test]|async fn a|fn b|#[ignore
|panic!|specify 'a'|pending|focus: true|refute_x|.should|function testA (|#[Test]|public function b|markTestSkipped|->assertX
|[Fact]|[Theory]|x a (|Skip =|Assert.True|SHELL = x|MAKEFLAGS += i|.IGNORE:|script-shell x|Ignore-Scripts|ignore x|runner = "x"
|[alias]|test = false|func TestMain(|.Run()|os.Exit(0)|process.exit()|exit 0|--ignore|passWithNoTests|maven.test.skip| |	|"|a|(|).Run(|parametrize|.each|@RepeatedTest|[TestCase|[InlineData|#[case|#[rstest|@dataProvider|DataProvider|subTest(|TEST_P|INSTANTIATE_TEST`, "|")

// TestExpressionsFindAsMuchInParts: what is not given to an expression holds nothing
// that it would find.
func TestExpressionsFindAsMuchInParts(t *testing.T) {
	t.Parallel()
	all, ctx := expressions(), t.Context()
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		for _, piece := range rapid.SliceOfN(rapid.SampledFrom(append(pieces, "\n", "\n", "\n\n")), 1, 60).Draw(t, "src") {
			b.WriteString(piece)
		}
		src := b.Bytes()
		for _, e := range all {
			if want, got := len(e.re().FindAllIndex(src, -1)), e.count(ctx, src); got != want {
				t.Fatalf("%s is found %d times, not %d, in %q", e.re(), got, want, src)
			}
			if want, got := e.re().FindAllSubmatchIndex(src, -1), e.all(ctx, src); !slices.EqualFunc(want, got, sameEnds) {
				t.Fatalf("%s is found at %v, not %v, in %q", e.re(), got, want, src)
			}
			if want, got := e.re().Match(src), e.match(ctx, src); got != want {
				t.Fatalf("%s is found: %t, not %t, in %q", e.re(), got, want, src)
			}
		}
	})
}

// sameEnds compares two places. Blank lines before a match may be part of it, or not.
func sameEnds(a, b []int) bool { return a[0] <= b[0] && slices.Equal(a[1:], b[1:]) }

func BenchmarkWeakened(b *testing.B) {
	const size = 1 << 20
	for _, tt := range []struct{ path, unit string }{
		{"a.test.js", "it("},
		{"a.test.js", "plain words\n"},
		{"a_test.go", "\n"},
		{"ATests.cs", "[Fact] "},
		{"tests/a.cpp", "exit 0 "},
		{"spec/a.rb", "it('"},
	} {
		b.Run(tt.path+" "+strings.TrimSpace(tt.unit), func(b *testing.B) {
			src := bytes.Repeat([]byte(tt.unit), size/len(tt.unit))
			d := FileDiff{Path: tt.path, Old: src, New: append(bytes.Clone(src), 'z')}
			b.SetBytes(2 * size)
			for b.Loop() {
				FindWeakened(b.Context(), []FileDiff{d})
				LosesLines(d)
				Size(b.Context(), []FileDiff{d})
			}
		})
	}
}
