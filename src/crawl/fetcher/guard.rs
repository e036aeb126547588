//! Which addresses a crawl may connect to: everything that is not a public unicast address is refused
//! unless `network.allow_private` says otherwise.
//!
//! Pure: an address in, a [`Family`] out. Addresses that carry another one (IPv4-mapped, 6to4, NAT64,
//! Teredo) are judged by what they carry and refused as a whole family where a network may route them
//! inward. What this does not do: look names up (see `resolve.rs`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is no public one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// `0.0.0.0/8` and `::`.
    ThisNetwork,
    /// `127.0.0.0/8` and `::1`.
    Loopback,
    /// RFC 1918.
    Private,
    /// `100.64.0.0/10`, carrier-grade NAT.
    SharedNat,
    /// `169.254.0.0/16` and `fe80::/10`.
    LinkLocal,
    /// Addresses of cloud metadata services.
    Metadata,
    /// Multicast.
    Multicast,
    /// `255.255.255.255`.
    Broadcast,
    /// Documentation ranges.
    Documentation,
    /// `198.18.0.0/15` and `2001:2::/48`.
    Benchmarking,
    /// `fc00::/7`.
    UniqueLocal,
    /// `fec0::/10`, deprecated.
    SiteLocal,
    /// `::ffff:0:0/96` and the deprecated `::/96`.
    Mapped,
    /// `2002::/16`.
    SixToFour,
    /// `64:ff9b::/96` and `64:ff9b:1::/48`.
    Nat64,
    /// `2001::/32`.
    Teredo,
    /// `240.0.0.0/4`, protocol assignments, and IPv6 outside of `2000::/3`.
    Reserved,
}

impl Family {
    /// The family in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ThisNetwork => "unspecified",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::SharedNat => "carrier-grade NAT",
            Self::LinkLocal => "link-local",
            Self::Metadata => "cloud metadata",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Documentation => "documentation",
            Self::Benchmarking => "benchmarking",
            Self::UniqueLocal => "unique local",
            Self::SiteLocal => "site-local",
            Self::Mapped => "IPv4-mapped",
            Self::SixToFour => "6to4",
            Self::Nat64 => "NAT64",
            Self::Teredo => "Teredo",
            Self::Reserved => "reserved",
        }
    }
}

/// Which addresses are let through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// Public addresses only.
    PublicOnly,
    /// All of them: `network.allow_private`.
    All,
}

impl Guard {
    /// The guard that `network.allow_private` asks for.
    pub const fn from_config(allow_private: bool) -> Self {
        if allow_private { Self::All } else { Self::PublicOnly }
    }

    /// Why `address` is refused, or `None` if it may be connected to.
    pub fn refuses(self, address: IpAddr) -> Option<Family> {
        match self {
            Self::All => None,
            Self::PublicOnly => family(address),
        }
    }
}

/// The family of a non-public address; `None` for a public unicast one.
pub fn family(address: IpAddr) -> Option<Family> {
    match address {
        IpAddr::V4(v4) => family_v4(v4),
        IpAddr::V6(v6) => family_v6(v6),
    }
}

/// IPv4, after the IANA special-purpose registry (RFC 6890).
fn family_v4(address: Ipv4Addr) -> Option<Family> {
    Some(match address.octets() {
        [0, ..] => Family::ThisNetwork,
        [127, ..] => Family::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Family::Private,
        [100, 64..=127, ..] => Family::SharedNat,
        // AWS, GCP and Azure; Alibaba's lies in the CGNAT range; Azure's wire server is a public address.
        [169, 254, 169, 254] | [168, 63, 129, 16] => Family::Metadata,
        [169, 254, ..] => Family::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Family::Documentation,
        [198, 18..=19, ..] => Family::Benchmarking,
        [192, 88, 99, _] => Family::SixToFour,
        [192, 0, 0, _] => Family::Reserved,
        [224..=239, ..] => Family::Multicast,
        [255, 255, 255, 255] => Family::Broadcast,
        [240..=255, ..] => Family::Reserved,
        _ => return None,
    })
}

/// IPv6, after the same registry; what is not in `2000::/3` is not global unicast.
fn family_v6(address: Ipv6Addr) -> Option<Family> {
    Some(match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Family::ThisNetwork,
        [0, 0, 0, 0, 0, 0, 0, 1] => Family::Loopback,
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => Family::Mapped,
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => Family::Nat64,
        [0x2001, 0, ..] => Family::Teredo,
        [0x2001, 2, 0, ..] => Family::Benchmarking,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => Family::Documentation,
        // The rest of 2001::/23 is for protocols, not for hosts.
        [0x2001, 1..=0x1ff, ..] => Family::Reserved,
        [0x2002, ..] => Family::SixToFour,
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] => Family::Metadata,
        [0xfc00..=0xfdff, ..] => Family::UniqueLocal,
        [0xfe80..=0xfebf, ..] => Family::LinkLocal,
        [0xfec0..=0xfeff, ..] => Family::SiteLocal,
        [0xff00..=0xffff, ..] => Family::Multicast,
        [0x2000..=0x3fff, ..] => return None,
        _ => Family::Reserved,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_recognised() {
        for (text, expected) in [
            ("0.0.0.0", Family::ThisNetwork),
            ("0.1.2.3", Family::ThisNetwork),
            ("127.0.0.1", Family::Loopback),
            ("127.255.255.254", Family::Loopback),
            ("10.0.0.1", Family::Private),
            ("172.16.0.1", Family::Private),
            ("172.31.255.255", Family::Private),
            ("192.168.1.1", Family::Private),
            ("100.64.0.1", Family::SharedNat),
            ("100.100.100.200", Family::SharedNat),
            ("100.127.255.255", Family::SharedNat),
            ("169.254.1.1", Family::LinkLocal),
            ("169.254.169.254", Family::Metadata),
            ("168.63.129.16", Family::Metadata),
            ("192.0.0.8", Family::Reserved),
            ("192.0.2.1", Family::Documentation),
            ("198.51.100.1", Family::Documentation),
            ("203.0.113.1", Family::Documentation),
            ("198.18.0.1", Family::Benchmarking),
            ("198.19.255.255", Family::Benchmarking),
            ("192.88.99.1", Family::SixToFour),
            ("224.0.0.1", Family::Multicast),
            ("239.255.255.255", Family::Multicast),
            ("240.0.0.1", Family::Reserved),
            ("255.255.255.255", Family::Broadcast),
            ("::", Family::ThisNetwork),
            ("::1", Family::Loopback),
            ("::7f00:1", Family::Mapped),
            ("::ffff:127.0.0.1", Family::Mapped),
            ("::ffff:93.184.216.34", Family::Mapped),
            ("::ffff:0:127.0.0.1", Family::Mapped),
            ("64:ff9b::7f00:1", Family::Nat64),
            ("64:ff9b:1::1", Family::Nat64),
            ("2001::1", Family::Teredo),
            ("2001:2::1", Family::Benchmarking),
            ("2001:10::1", Family::Reserved),
            ("2001:db8::1", Family::Documentation),
            ("3fff::1", Family::Documentation),
            ("2002:7f00:1::", Family::SixToFour),
            ("fd00:ec2::254", Family::Metadata),
            ("fc00::1", Family::UniqueLocal),
            ("fdff::1", Family::UniqueLocal),
            ("fe80::1", Family::LinkLocal),
            ("febf::1", Family::LinkLocal),
            ("fec0::1", Family::SiteLocal),
            ("ff02::1", Family::Multicast),
            ("100::1", Family::Reserved),
            ("4000::1", Family::Reserved),
        ] {
            let address: IpAddr = text.parse().expect(text);
            assert_eq!(family(address), Some(expected), "{text}");
            assert_eq!(Guard::PublicOnly.refuses(address), Some(expected), "{text}");
            assert_eq!(Guard::All.refuses(address), None, "{text}");
        }
    }

    #[test]
    fn public_addresses_pass() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "2a00::1",
        ] {
            assert_eq!(family(text.parse().expect(text)), None, "{text}");
        }
    }
}
