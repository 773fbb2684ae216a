//! Where an IP address leads, as far as the address itself tells.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address can lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpScope {
    /// An address of the internet.
    Public,
    /// The local network: private ranges, and the range that carriers and overlay networks share.
    Local,
    /// An address of this machine.
    Loopback,
    /// Nothing that an agent may ever reach: metadata services, link-local addresses, addresses that carry another
    /// address, multicast, and ranges without hosts.
    Never,
}

/// An IPv4 network: its address and the length of its prefix.
struct Net4(Ipv4Addr, u32);
/// An IPv6 network.
struct Net6(Ipv6Addr, u32);

const fn v4(a: u8, b: u8, c: u8, bits: u32) -> Net4 {
    Net4(Ipv4Addr::new(a, b, c, 0), bits)
}

const fn v6(a: u16, b: u16, c: u16, bits: u32) -> Net6 {
    Net6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), bits)
}

impl Net4 {
    const fn has(&self, address: Ipv4Addr) -> bool {
        let differs = self.0.to_bits() ^ address.to_bits();
        differs.leading_zeros() >= self.1
    }
}

impl Net6 {
    const fn has(&self, address: Ipv6Addr) -> bool {
        let differs = self.0.to_bits() ^ address.to_bits();
        differs.leading_zeros() >= self.1
    }
}

/// Private ranges, and 100.64.0.0/10.
const LOCAL_V4: [Net4; 4] = [v4(10, 0, 0, 8), v4(172, 16, 0, 12), v4(192, 168, 0, 16), v4(100, 64, 0, 10)];

/// IANA's special-purpose registry without what is named elsewhere, and 6to4's relays.
const NEVER_V4: [Net4; 10] = [
    v4(0, 0, 0, 8),
    v4(169, 254, 0, 16),
    v4(192, 0, 0, 24),
    v4(192, 0, 2, 24),
    v4(192, 88, 99, 24),
    v4(198, 18, 0, 15),
    v4(198, 51, 100, 24),
    v4(203, 0, 113, 24),
    v4(224, 0, 0, 4),
    v4(240, 0, 0, 4),
];

/// Metadata services within ranges that are otherwise local.
const METADATA_V4: [Ipv4Addr; 1] = [Ipv4Addr::new(100, 100, 100, 200)];
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

const LOCAL_V6: Net6 = v6(0xfc00, 0, 0, 7);
/// Global unicast. What lies outside is mapped, compatible, NAT64, link-local, site-local or multicast.
const GLOBAL_V6: Net6 = v6(0x2000, 0, 0, 3);
/// Within global unicast: IETF protocols with Teredo, documentation, 6to4.
const NEVER_V6: [Net6; 4] =
    [v6(0x2001, 0, 0, 23), v6(0x2001, 0xdb8, 0, 32), v6(0x2002, 0, 0, 16), v6(0x3fff, 0, 0, 20)];

impl IpScope {
    /// The scope of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        if METADATA_V4.contains(&address) || NEVER_V4.iter().any(|net| net.has(address)) {
            return Self::Never;
        }
        if address.is_loopback() {
            return Self::Loopback;
        }
        if LOCAL_V4.iter().any(|net| net.has(address)) { Self::Local } else { Self::Public }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        if address.is_loopback() {
            return Self::Loopback;
        }
        if METADATA_V6.contains(&address) || NEVER_V6.iter().any(|net| net.has(address)) {
            return Self::Never;
        }
        match (LOCAL_V6.has(address), GLOBAL_V6.has(address)) {
            (true, _) => Self::Local,
            (false, true) => Self::Public,
            (false, false) => Self::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_where_registries_say() {
        for (scope, addresses) in [
            (
                IpScope::Public,
                "1.1.1.1 172.15.255.255 172.32.0.1 100.63.0.1 100.128.0.1 192.0.1.1 2606:4700::1 2a00:1450::2",
            ),
            (
                IpScope::Local,
                "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.20 100.64.0.1 100.127.255.254 fd00::1 fc00::1",
            ),
            (IpScope::Loopback, "127.0.0.1 127.255.255.254 ::1"),
            (
                IpScope::Never,
                "0.0.0.0 0.1.2.3 169.254.169.254 169.254.0.1 192.0.0.192 192.0.2.1 192.88.99.1 198.18.0.1 198.19.255.255 \
                 198.51.100.1 203.0.113.1 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 100.100.100.200 \
                 :: ::ffff:10.0.0.1 ::ffff:8.8.8.8 ::8.8.8.8 64:ff9b::808:808 64:ff9b:1::1 2001::1 2001:20::1 2001:db8::1 \
                 2002:a00:1::1 3fff::1 fe80::1 fec0::1 ff02::1 100::1 fd00:ec2::254 fd20:ce::254 4000::1",
            ),
        ] {
            for address in addresses.split_whitespace() {
                assert_eq!(IpScope::of(address.parse().unwrap()), scope, "{address}");
            }
        }
    }
}
