//! Addresses of buses.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::systemd::dbus::Error;

/// The socket of the system bus, unless DBUS_SYSTEM_BUS_ADDRESS names another socket.
const SYSTEM_BUS: &str = "/run/dbus/system_bus_socket";

/// An address to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A socket with a path in the file system.
    Path(String),
    /// An abstract socket, which belongs to a network namespace.
    Abstract(String),
}

impl Address {
    /// Returns the default address of the system bus.
    pub fn system() -> Self {
        Self::Path(SYSTEM_BUS.to_string())
    }

    /// Parses a list of addresses such as `unix:path=/run/bus,guid=…;unix:abstract=name`, the format of
    /// DBUS_SYSTEM_BUS_ADDRESS and DBUS_SESSION_BUS_ADDRESS. Returns the first address of a supported kind.
    ///
    /// # Errors
    /// [`Error::Address`] if the list contains no address of a supported kind.
    pub fn parse(address: &str) -> Result<Self, Error> {
        let unix = address.split(';').filter_map(|one| one.strip_prefix("unix:"));
        let mut pairs = unix.flat_map(|one| one.split(',')).filter_map(|pair| pair.split_once('='));
        pairs
            .find_map(|(key, value)| match key {
                "path" => unescape(value).map(Self::Path),
                "abstract" => unescape(value).map(Self::Abstract),
                _ => None,
            })
            .ok_or_else(|| Error::Address(address.to_string()))
    }
}

impl core::fmt::Display for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Path(path) => f.write_str(path),
            Self::Abstract(name) => write!(f, "@{name}"),
        }
    }
}

/// Returns the address of the bus whose socket is at `path`, in the format of DBUS_SYSTEM_BUS_ADDRESS.
pub fn address_of(path: &str) -> String {
    let mut address = String::from("unix:path=");
    for byte in path.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'/' | b'.' => {
                address.push(byte.into());
            }
            _ => address.push_str(&format!("%{byte:02x}")),
        }
    }
    address
}

/// Decodes a value in an address, where `%` and two hexadecimal digits may represent a byte.
fn unescape(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let byte = match first {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                // from_str_radix would accept a sign, which is not allowed here.
                let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
                let digits = core::str::from_utf8(digits).ok().filter(|_| is_hex)?;
                u8::from_str_radix(digits, 16).ok()?
            }
            byte => *byte,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parsed = |address| Address::parse(address).ok();
        let path = |path: &str| Some(Address::Path(path.into()));
        assert_eq!(parsed("unix:path=/run/bus,guid=7"), path("/run/bus"));
        assert_eq!(parsed("unix:guid=7,path=/b"), path("/b"));
        assert_eq!(parsed("tcp:host=h;unix:abstract=x"), Some(Address::Abstract("x".into())));
        assert_eq!(parsed("tcp:host=h"), None);
        assert_eq!(parsed("unix:path=/a%20b"), path("/a b"));
        assert_eq!(parsed("nonsense"), None);
        for bad in
            ["unix:path=/a%", "unix:path=/a%2", "unix:path=%+1", "unix:path=%ff", "unix:path=%2é"]
        {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }

    #[test]
    fn addresses_of_paths_are_read_as_those() {
        assert_eq!(address_of("/run/user/1000/bus"), "unix:path=/run/user/1000/bus");
        for path in ["/a b,c;d=e%f", "/ä", "/run/bus"] {
            assert_eq!(Address::parse(&address_of(path)), Ok(Address::Path(path.into())));
        }
    }
}
