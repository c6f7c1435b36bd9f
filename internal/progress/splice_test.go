package progress

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPatch(t *testing.T) {
	t.Parallel()
	const src = bom + "## Tasks\n- [ ] T1 a\n- [ ] T2 b\n" // offsets do not count the mark
	tests := []struct {
		name    string
		patches []Patch
		want    string // "" is an error
	}{
		{"none", nil, src},
		{"one", []Patch{{12, 13, "x"}}, bom + "## Tasks\n- [x] T1 a\n- [ ] T2 b\n"},
		{
			"out of order", []Patch{{29, 31, "c\n- [ ] d\n"}, {18, 19, "longer"}},
			bom + "## Tasks\n- [ ] T1 longer\n- [ ] T2 c\n- [ ] d\n",
		},
		{
			"at the ends", []Patch{{31, 31, "- [ ] c\n"}, {0, 0, "# A\n"}},
			bom + "# A\n## Tasks\n- [ ] T1 a\n- [ ] T2 b\n- [ ] c\n",
		},
		{
			"insertions at one place keep their order", []Patch{{20, 20, "- [ ] c\n"}, {20, 20, "- [ ] d\n"}},
			bom + "## Tasks\n- [ ] T1 a\n- [ ] c\n- [ ] d\n- [ ] T2 b\n",
		},
		{
			"insertion before a replacement", []Patch{{20, 22, "* "}, {20, 20, "- [ ] c\n"}},
			bom + "## Tasks\n- [ ] T1 a\n- [ ] c\n* [ ] T2 b\n",
		},
		{"side by side", []Patch{{9, 20, ""}, {20, 31, ""}}, bom + "## Tasks\n"},
		{"overlap", []Patch{{9, 20, ""}, {19, 31, ""}}, ""},
		{"insertion inside a replacement", []Patch{{9, 20, ""}, {10, 10, "x"}}, ""},
		{"backwards", []Patch{{20, 9, ""}}, ""},
		{"before the start", []Patch{{-1, 2, ""}}, ""},
		{"behind the end", []Patch{{31, 32, ""}}, ""},
		{"not a document any more", []Patch{{9, 9, "\x00"}}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, src)
			err := d.patch(tc.patches...)
			want := tc.want
			if want == "" {
				want = src
				if err == nil {
					t.Error("no error")
				}
			} else if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, string(d.Bytes())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(parse(t, want).Tasks(), d.Tasks()); diff != "" {
				t.Errorf("the tasks in memory are others (-want +got):\n%s", diff)
			}
		})
	}
}
