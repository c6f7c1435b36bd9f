package egress

import (
	"net/netip"
	"slices"
	"sync"
)

// special are the ranges within the unicast space that are not the Internet's,
// after IANA's registries of special-purpose addresses; and those that carry an
// IPv4 address inside, which would have to be judged itself.
var special = sync.OnceValue(func() []netip.Prefix {
	var out []netip.Prefix
	for _, text := range []string{
		"0.0.0.0/8",        // this network
		"10.0.0.0/8",       // private
		"100.64.0.0/10",    // carriers' own
		"127.0.0.0/8",      // loopback
		"169.254.0.0/16",   // link-local, and the metadata of clouds
		"172.16.0.0/12",    // private
		"192.0.0.0/24",     // protocols, among them metadata of Oracle's cloud
		"192.0.2.0/24",     // documentation
		"192.31.196.0/24",  // AS112
		"192.52.193.0/24",  // AMT
		"192.88.99.0/24",   // 6to4 relays
		"192.168.0.0/16",   // private
		"192.175.48.0/24",  // AS112
		"198.18.0.0/15",    // benchmarks
		"198.51.100.0/24",  // documentation
		"203.0.113.0/24",   // documentation
		"224.0.0.0/3",      // multicast, reserved, broadcast
		"168.63.129.16/32", // Azure's host, which is public in form only

		"2001::/23",     // protocols, among them Teredo
		"2001:db8::/32", // documentation
		"2002::/16",     // 6to4
		"3fff::/20",     // documentation
	} {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
})

// global is the part of IPv6 from which addresses of the Internet are given out.
var global = sync.OnceValue(func() netip.Prefix { return netip.MustParsePrefix("2000::/3") })

// Public says whether an address is one of the public Internet.
func Public(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if a.Is6() && !global().Contains(a) {
		return false
	}
	return !slices.ContainsFunc(special(), func(p netip.Prefix) bool { return p.Contains(a) })
}
