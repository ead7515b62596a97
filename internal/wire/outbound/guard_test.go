package outbound

import (
	"net/netip"
	"testing"

	"agentd/internal/base/fault"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	tests := []struct {
		address string
		public  bool
		what    string
	}{
		{"8.8.8.8:443", true, "public"},
		{"1.1.1.1:8080", true, "any port"},
		{"93.184.216.34:80", true, "public"},
		{"11.0.0.1:443", true, "just behind 10/8"},
		{"9.255.255.255:443", true, "just before 10/8"},
		{"172.15.255.255:443", true, "just before 172.16/12"},
		{"172.32.0.1:443", true, "just behind 172.16/12"},
		{"100.63.255.255:443", true, "just before shared space"},
		{"100.128.0.1:443", true, "just behind shared space"},
		{"169.253.255.255:443", true, "just before link-local"},
		{"192.167.255.255:443", true, "just before 192.168/16"},
		{"223.255.255.255:443", true, "last unicast"},
		{"[2606:4700:4700::1111]:443", true, "public IPv6"},
		{"[2a00:1450:4001:830::200e]:443", true, "public IPv6"},
		{"[::ffff:8.8.8.8]:443", true, "mapped public"},

		{"0.0.0.0:80", false, "this host"},
		{"0.1.2.3:80", false, "this network"},
		{"127.0.0.1:80", false, "loopback"},
		{"127.255.255.254:80", false, "loopback's end"},
		{"10.0.0.1:80", false, "private"},
		{"10.255.255.255:80", false, "private"},
		{"172.16.0.1:80", false, "private"},
		{"172.31.255.255:80", false, "private"},
		{"192.168.0.1:80", false, "private"},
		{"192.168.255.255:80", false, "private"},
		{"100.64.0.1:80", false, "shared space of carriers"},
		{"100.127.255.255:80", false, "shared space of carriers"},
		{"169.254.0.1:80", false, "link-local"},
		{"169.254.169.254:80", false, "metadata"},
		{"169.254.170.2:80", false, "metadata of containers"},
		{"169.254.170.23:80", false, "metadata of pods"},
		{"168.63.129.16:80", false, "Azure's host, a public range"},
		{"100.100.100.200:80", false, "metadata of Alibaba"},
		{"192.0.0.192:80", false, "metadata of Oracle"},
		{"192.0.0.1:80", false, "IETF assignments"},
		{"192.0.2.1:80", false, "documentation"},
		{"198.51.100.1:80", false, "documentation"},
		{"203.0.113.1:80", false, "documentation"},
		{"192.88.99.1:80", false, "6to4 relays"},
		{"192.31.196.1:80", false, "AS112"},
		{"192.52.193.1:80", false, "AMT"},
		{"192.175.48.1:80", false, "AS112"},
		{"198.18.0.1:80", false, "benchmarks"},
		{"198.19.255.255:80", false, "benchmarks"},
		{"224.0.0.1:80", false, "multicast"},
		{"239.255.255.255:80", false, "multicast"},
		{"240.0.0.1:80", false, "reserved"},
		{"255.255.255.255:80", false, "broadcast"},

		{"[::]:80", false, "unspecified"},
		{"[::1]:80", false, "loopback"},
		{"[::ffff:127.0.0.1]:80", false, "mapped loopback"},
		{"[::ffff:10.0.0.1]:80", false, "mapped private"},
		{"[::ffff:169.254.169.254]:80", false, "mapped metadata"},
		{"[::ffff:a9fe:a9fe]:80", false, "mapped metadata, in hexadecimal"},
		{"[::ffff:168.63.129.16]:80", false, "mapped Azure"},
		{"[::127.0.0.1]:80", false, "IPv4-compatible"},
		{"[::ffff:0:127.0.0.1]:80", false, "IPv4-translated"},
		{"[64:ff9b::7f00:1]:80", false, "NAT64 of loopback"},
		{"[64:ff9b::808:808]:80", false, "NAT64 of a public address"},
		{"[64:ff9b:1::1]:80", false, "local NAT64"},
		{"[2002:7f00:1::]:80", false, "6to4 of loopback"},
		{"[2002:a00:1::1]:80", false, "6to4 of a private address"},
		{"[2001::1]:80", false, "Teredo"},
		{"[2001:2::1]:80", false, "benchmarks"},
		{"[2001:10::1]:80", false, "ORCHID"},
		{"[2001:db8::1]:80", false, "documentation"},
		{"[3fff::1]:80", false, "documentation"},
		{"[2620:4f:8000::1]:80", false, "AS112"},
		{"[100::1]:80", false, "discard"},
		{"[5f00::1]:80", false, "segment routing"},
		{"[fc00::1]:80", false, "unique local"},
		{"[fdff:ffff::1]:80", false, "unique local"},
		{"[fd00:ec2::254]:80", false, "metadata over IPv6"},
		{"[fe80::1]:80", false, "link-local"},
		{"[fe80::1%eth0]:80", false, "link-local with a zone"},
		{"[::1%lo]:80", false, "loopback with a zone"},
		{"[fec0::1]:80", false, "site-local"},
		{"[ff02::1]:80", false, "multicast"},
		{"[4000::1]:80", false, "not given out"},

		{"169.254.0.23:80", false, "metadata of Tencent"},
		{"169.254.42.42:80", false, "metadata of Scaleway"},
		{"[fd00:c1::a9fe:a9fe]:80", false, "metadata of Oracle over IPv6"},
		{"[fe80::a9fe:a9fe]:80", false, "metadata of OpenStack over IPv6"},
		{"[64:ff9b::a9fe:a9fe]:80", false, "NAT64 of the metadata service"},
		{"[64:ff9b:1::a00:1]:80", false, "local NAT64 of a private address"},
		{"[2002:a9fe:a9fe::1]:80", false, "6to4 of the metadata service"},
		{"[2001:0:4136:e378:8000:63bf:f5ff:fffe]:80", false, "Teredo of 10.0.0.1"},
		{"[2a00:1450:4001:830::5efe:a00:1]:80", false, "ISATAP of a private address"},
		{"[2a00:1450:4001:830:200:5efe:7f00:1]:80", false, "ISATAP of loopback, with the global bit"},
		{"[2a00:1450:4001:830:200:5eff:7f00:1]:80", true, "no ISATAP"},
		{"[::1:0:0:0]:80", false, "not given out"},
		{"[100:0:0:1::1]:80", false, "dummy prefix"},
		{"[2001:1::1]:80", false, "port control anycast"},
		{"[2001:1ff:ffff::1]:80", false, "the last of IETF assignments"},
		{"[2001:200::1]:80", true, "just behind IETF assignments"},
		{"[2001:3::1]:80", false, "AMT"},
		{"[2001:4:112::1]:80", false, "AS112"},
		{"[2001:20::1]:80", false, "ORCHID, second version"},
		{"[2001:30::1]:80", false, "remote identification of aircraft"},
		{"[2001:db7:ffff::1]:80", true, "just before documentation"},
		{"[2001:db9::1]:80", true, "just behind documentation"},
		{"[3fff:fff:ffff::1]:80", false, "the last of documentation"},
		{"[3fff:1000::1]:80", true, "just behind documentation"},
		{"[febf:ffff::1]:80", false, "the last of link-local"},
		{"[192.88.99.2]:80", false, "not an address of IPv6"},
		{"192.88.99.255:80", false, "6to4 relays"},
		{"192.0.0.255:80", false, "the last of IETF assignments"},
		{"192.0.1.1:80", true, "just behind IETF assignments"},
		{"198.17.255.255:80", true, "just before benchmarks"},
		{"198.20.0.1:80", true, "just behind benchmarks"},
	}
	g := newGuard(Allow{})
	for _, test := range tests {
		err := g.control("tcp6", test.address, nil)
		if (err == nil) != test.public {
			t.Errorf("%s (%s): %v", test.address, test.what, err)
		}
		if err != nil && (!IsDenied(err) || !fault.Is(err, fault.Forbidden)) {
			t.Errorf("%s: the error %v is no denial", test.address, err)
		}
	}
	if len(tests) < 60 {
		t.Errorf("only %d addresses", len(tests))
	}
	for _, odd := range []string{"", "localhost:80", "10.0.0.1", "[::1]", "1.2.3.4:99999", "2130706433:80", "0x7f.1:80", "0177.0.0.1:80"} {
		if g.control("tcp4", odd, nil) == nil {
			t.Errorf("%q is dialled", odd)
		}
	}
	if g.control("udp4", "8.8.8.8:53", nil) == nil {
		t.Error("udp is dialled")
	}
}

func TestGuardAllows(t *testing.T) {
	t.Parallel()
	for setting, tests := range map[string]map[string]bool{
		"10.0.0.0/8, 127.0.0.1:9100": {
			"10.1.2.3:80": true, "[::ffff:10.1.2.3]:80": true, "127.0.0.1:9100": true, "[::ffff:127.0.0.1]:9100": true,
			"127.0.0.1:9101": false, "127.0.0.2:9100": false, "192.168.0.1:80": false, "8.8.8.8:80": true,
		},
		"169.254.0.0/16":           {"169.254.1.1:80": true, "169.254.169.254:80": false},
		"0.0.0.0/0,::/0":           {"127.0.0.1:1": true, "[::1]:1": true, "168.63.129.16:80": false, "[fd00:ec2::254]:80": false},
		"169.254.169.254:80":       {"169.254.169.254:80": true, "169.254.169.254:81": false},
		"169.254.169.254":          {"169.254.169.254:80": true, "169.254.169.253:80": false},
		"::1,fd00::/8,[fe80::1]:5": {"[::1]:80": true, "[fd00::7]:80": true, "[fe80::1%eth0]:5": true, "[fe80::1]:6": false},
		"::ffff:10.0.0.1":          {"10.0.0.1:80": true, "10.0.0.2:80": false},
		"":                         {"127.0.0.1:80": false},
		// A gateway that is allowed does not open what lies behind it.
		"64:ff9b::/96":            {"[64:ff9b::808:808]:80": true, "[64:ff9b::7f00:1]:80": false, "[64:ff9b::a9fe:a9fe]:80": false, "[64:ff9b::a00:1]:80": false},
		"64:ff9b::/96,10.0.0.0/8": {"[64:ff9b::a00:1]:80": true, "[64:ff9b::a9fe:a9fe]:80": false, "[64:ff9b::7f00:1]:80": false},
		"2002::/16":               {"[2002:808:808::1]:80": true, "[2002:7f00:1::1]:80": false},
		"2001::/23":               {"[2001:0:4136:e378:8000:63bf:f5ff:fffe]:80": false, "[2001:0:4136:e378:8000:63bf:f7f7:f7f7]:80": true, "[2001:2::1]:80": true},
		"::/0":                    {"[::7f00:1]:80": false, "[::1]:80": true, "[fe80::5efe:a9fe:a9fe]:80": false, "[fe80::1]:80": true, "[::ffff:127.0.0.1]:80": false},
		"[64:ff9b::a9fe:a9fe]:80": {"[64:ff9b::a9fe:a9fe]:80": true, "[64:ff9b::a9fe:a9fe]:81": false},
	} {
		allow, err := ParseAllow(setting)
		if err != nil {
			t.Errorf("%q: %v", setting, err)
			continue
		}
		g := newGuard(allow)
		for address, want := range tests {
			if err := g.check(netip.MustParseAddrPort(address)); (err == nil) != want {
				t.Errorf("%q, %s: %v", setting, address, err)
			}
		}
	}
}

func TestParseAllowRefuses(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"localhost", "10.0.0.1/8", "10.0.0.0/33", "127.0.0.1:", "127.0.0.1:99999", "*", "10.0.0.0/8;::1", "fe80::1%eth0", "[fe80::1%eth0]:80", "::ffff:10.0.0.0/104"} {
		if allow, err := ParseAllow(setting); err == nil {
			t.Errorf("%q allows %v", setting, allow)
		}
	}
	allow, err := ParseAllow(" 10.0.0.0/8 ,, 127.0.0.1:9100")
	if err != nil || allow.String() != "10.0.0.0/8,127.0.0.1:9100" {
		t.Errorf("%v, %v", allow, err)
	}
}
