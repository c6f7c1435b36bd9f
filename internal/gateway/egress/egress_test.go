package egress

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	t.Parallel()
	label := strings.Repeat("a", 63)
	for in, want := range map[string]string{
		"example.com": "example.com", "EXAMPLE.com.": "example.com", "a-b.c_d.e": "a-b.c_d.e", "localhost": "localhost",
		"xn--bcher-kva.example": "xn--bcher-kva.example",
		"1.2.3.4.example":       "1.2.3.4.example", label + ".com": label + ".com",
		"": "", ".": "", "a..b": "", ".a": "", "a.b..": "", "-a.com": "", "a.-b": "",
		"127.0.0.1": "", "127.1": "", "2130706433": "", "0x7f000001": "", "0177.0.0.1": "", "a.0x1": "", "1.2.3.4.": "",
		"::1": "", "[::1]": "", "fe80::1%eth0": "", "a:80": "", "a/b": "", "a b": "", "a\x00b": "", "a\nb": "", "a@b": "",
		"a%2eb": "", "bücher.example": "", "a。com": "", "*.a.com": "",
		label + "a.com": "", strings.Repeat("a.", 127): "a" + strings.Repeat(".a", 126), strings.Repeat("a.", 127) + "ab": "",
	} {
		got, ok := Name(in)
		if !ok {
			got = ""
		}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzName(f *testing.F) {
	f.Add("Example.COM.")
	f.Add("1.2.3.4")
	f.Fuzz(func(t *testing.T, in string) {
		name, ok := Name(in)
		if !ok {
			return
		}
		if again, ok := Name(name); !ok || again != name {
			t.Errorf("%q gives %q, and that %q, %v", in, name, again, ok)
		}
		if _, err := netip.ParseAddr(name); err == nil {
			t.Errorf("%q is an address", name)
		}
		if !strings.EqualFold(strings.TrimSuffix(in, "."), name) {
			t.Errorf("%q became %q", in, name)
		}
	})
}

func TestAllows(t *testing.T) {
	t.Parallel()
	list := List{"preset:npm", "host.example", "*.deep.example.org"}
	for _, entry := range list {
		if err := Check(entry); err != nil {
			t.Error(err)
		}
	}
	for host, want := range map[string]bool{
		"registry.npmjs.org": true, "npmjs.org": false, "evil.registry.npmjs.org": false, "preset:npm": false,
		"host.example": true, "a.host.example": false, "ghost.example": false, "host.example.evil": false,
		"a.deep.example.org": true, "a.b.deep.example.org": true, "deep.example.org": false, "adeep.example.org": false,
		"": false,
	} {
		if got := list.Allows(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
	if (List{}).Allows("host.example") || List(nil).Allows("") {
		t.Error("an empty list allows something")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		"", "*", "*.", "*.com", "com.", "Host.example", "a.*.example", "**.example.com", "https://host.example",
		"host.example:443", "127.0.0.1", "[::1]", "10.0.0.0/8",
		"preset:", "preset:NPM", "preset:pip", "host.example/x", "host example",
	} {
		if err := Check(entry); err == nil {
			t.Errorf("%q passes", entry)
		}
	}
}

// Every preset has hosts, each of them a name that a person could write too, and the documentation
// lists them.
func TestPresets(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Presets() {
		hosts := presets[name]
		if len(hosts) == 0 || !slices.IsSorted(hosts) {
			t.Errorf("%s: %v", name, hosts)
		}
		for _, host := range hosts {
			if err := Check(host); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if !(List{"preset:" + name}).Allows(host) {
				t.Errorf("preset:%s does not allow %s", name, host)
			}
		}
		if row := fmt.Sprintf("| `preset:%s` | `%s` |\n", name, strings.Join(hosts, "`, `")); !strings.Contains(string(doc), row) {
			t.Errorf("docs/agents.md lacks %s", row)
		}
	}
	if n := strings.Count(string(doc), "| `preset:"); n != len(Presets()) || !slices.IsSorted(Presets()) {
		t.Errorf("docs/agents.md has %d presets of %q", n, Presets())
	}
}

func TestPublic(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"1.1.1.1": true, "8.8.8.8": true, "93.184.216.34": true, "172.15.255.255": true, "172.32.0.1": true,
		"100.63.255.255": true, "100.128.0.1": true, "223.255.255.254": true,
		"2606:4700:4700::1111": true, "2a00:1450:4001:80b::200e": true, "2001:4860:4860::8888": true, "::ffff:1.1.1.1": true,
		"127.0.0.1": false, "127.255.255.254": false, "0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false,
		"172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false,
		"169.254.169.254": false, "168.63.129.16": false, "100.64.0.1": false, "100.100.100.200": false, "192.0.0.192": false,
		"192.0.2.1": false, "198.18.0.1": false,
		"198.51.100.7": false, "203.0.113.9": false, "224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false,
		"192.88.99.1": false,
		"::":          false, "::1": false, "::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::127.0.0.1": false,
		"fe80::1": false, "fe80::1%eth0": false, "fd00:ec2::254": false, "fc00::1": false,
		"ff02::1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false, "100::1": false, "2001::1": false,
		"2001:db8::1": false, "2002:7f00:1::1": false, "3fff::1": false, "5f00::1": false,
	} {
		a := netip.MustParseAddr(text)
		if got := Public(a); got != want {
			t.Errorf("%s: %v", a, got)
		}
	}
	if Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}
