//! Network devices and their addresses (rtnetlink(7)): the requests needed to move a device to another network
//! namespace.

use alloc_crate::vec;
use alloc_crate::vec::Vec;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

use crate::clone::CloneFlags;
use crate::defence::{Defence, is_off};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_DUMP: u16 = 0x300;
const IFLA_IFNAME: u16 = 3;
const IFLA_NET_NS_FD: u16 = 28;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_BROADCAST: u16 = 4;
const IFA_F_PERMANENT: u8 = 0x80;
const RT_SCOPE_UNIVERSE: u8 = 0;
const IFF_UP: u32 = 1;
/// The size of `struct nlmsghdr` in bytes.
const HEADER: usize = 16;
/// The size of `struct ifinfomsg` in bytes.
const LINK: usize = 16;
/// The size of `struct ifaddrmsg` in bytes.
const ADDRESS: usize = 8;
/// The maximum size in bytes of one answer of the kernel.
const LONGEST: usize = 32 << 10;

/// A netlink socket for the network namespace in which it was created.
#[derive(Debug)]
pub struct Socket(OwnedFd);

/// An address of a device, in a form that can be added to another device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `struct ifaddrmsg`: family, prefix length, flags, scope, and the device's index.
    header: [u8; ADDRESS],
    /// The attributes that do not depend on the device.
    attributes: Vec<u8>,
}

impl Address {
    /// Returns whether the address is configured for traffic beyond the host: permanent and of global scope.
    pub fn is_permanent_and_global(&self) -> bool {
        let [_, _, flags, scope, ..] = self.header;
        flags & IFA_F_PERMANENT != 0 && scope == RT_SCOPE_UNIVERSE
    }
}

impl Socket {
    /// Opens a socket in the current network namespace.
    ///
    /// # Errors
    /// Those of socket(2).
    pub fn open() -> Result<Self, Errno> {
        open().map(Self)
    }

    /// Opens a socket in another network namespace, through a child process.
    ///
    /// # Errors
    /// Those of setns(2) and socket(2).
    pub fn open_in(namespace: BorrowedFd<'_>) -> Result<Self, Errno> {
        crate::errand::fetch(|| {
            crate::ns::join(namespace, CloneFlags::NEWNET)?;
            open()
        })
        .map(Self)
    }

    /// Returns the index of the device `name`.
    ///
    /// # Errors
    /// ENODEV if the device does not exist; ERANGE or EINVAL for an invalid name.
    pub fn index(&self, name: &str) -> Result<u32, Errno> {
        let mut body = link(0, 0);
        attribute(&mut body, IFLA_IFNAME, &terminated(name))?;
        let mut index = None;
        self.ask(RTM_GETLINK, 0, &body, |message| {
            index = message.get(4..8).and_then(|bytes| bytes.first_chunk()).copied();
        })?;
        index.map(u32::from_ne_bytes).ok_or(Errno::NODEV)
    }

    /// Returns the addresses of a device, in the kernel's order.
    ///
    /// # Errors
    /// Those of rtnetlink(7).
    pub fn addresses(&self, index: u32) -> Result<Vec<Address>, Errno> {
        let mut found = Vec::new();
        self.ask(RTM_GETADDR, NLM_F_DUMP, &[0; ADDRESS], |message| {
            let Some((header, rest)) = message.split_first_chunk::<ADDRESS>() else { return };
            let [.., a, b, c, d] = *header;
            if u32::from_ne_bytes([a, b, c, d]) != index {
                return;
            }
            let mut attributes = Vec::new();
            for (kind, value) in Attributes(rest) {
                if matches!(kind, IFA_ADDRESS | IFA_LOCAL | IFA_BROADCAST) {
                    // Cannot fail: the value is not too long, since it came from a message of the kernel.
                    let _ = attribute(&mut attributes, kind, value);
                }
            }
            found.push(Address { header: *header, attributes });
        })?;
        Ok(found)
    }

    /// Moves a device to another network namespace under a new name. The move removes the addresses of the device and
    /// brings it down.
    ///
    /// # Errors
    /// EEXIST if the name is taken in that namespace (the device may have been moved nevertheless); EINVAL for devices
    /// that cannot leave their namespace (`lo`).
    pub fn move_to(&self, index: u32, namespace: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
        let mut body = link(index, 0);
        attribute(&mut body, IFLA_IFNAME, &terminated(name))?;
        attribute(&mut body, IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes())?;
        self.ask(RTM_NEWLINK, 0, &body, |_| {})
    }

    /// Adds an address, as returned by [`Self::addresses`], to the device `index`.
    ///
    /// # Errors
    /// EEXIST if the device has the address already.
    pub fn add_address(&self, index: u32, address: &Address) -> Result<(), Errno> {
        let [family, prefix, ..] = address.header;
        let mut body = vec![family, prefix, 0, RT_SCOPE_UNIVERSE];
        body.extend(index.to_ne_bytes());
        body.extend(&address.attributes);
        self.ask(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &body, |_| {})
    }

    /// Brings a device up.
    ///
    /// # Errors
    /// The errors of the driver.
    pub fn set_up(&self, index: u32) -> Result<(), Errno> {
        self.ask(RTM_NEWLINK, 0, &link(index, IFF_UP), |_| {})
    }

    /// Sends a request and calls a function with the body of each answer.
    fn ask(
        &self,
        kind: u16,
        flags: u16,
        body: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), Errno> {
        send(&self.0, &request(kind, flags, body), SendFlags::empty())?;
        let mut buffer = vec![0; LONGEST];
        loop {
            let length = match recv(&self.0, &mut buffer[..], RecvFlags::empty()) {
                Err(Errno::INTR) => continue,
                result => result?.0,
            };
            let mut rest = buffer.get(..length).unwrap_or_default();
            while let Some((kind, message)) = next_message(&mut rest) {
                match kind {
                    NLMSG_ERROR | NLMSG_DONE => return outcome(message),
                    _ => each(message),
                }
            }
        }
    }
}

fn open() -> Result<OwnedFd, Errno> {
    // NETLINK_ROUTE is protocol 0.
    socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)
}

fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = HEADER + body.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags | NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

/// Returns a `struct ifinfomsg` that names a device and the flags to set.
fn link(index: u32, flags: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    bytes.extend([0; 4]);
    bytes.extend(index.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    // The mask of flags to change.
    bytes.extend(flags.to_ne_bytes());
    debug_assert_eq!(bytes.len(), LINK);
    bytes
}

/// Appends an attribute and its padding. Fails with EMSGSIZE if the value is too long for the 16-bit length field. If
/// the length wrapped, the kernel would read the rest of the value as further attributes (CVE-2021-43784).
fn attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) -> Result<(), Errno> {
    let length = match u16::try_from(value.len() + 4) {
        Ok(length) => length,
        #[expect(clippy::cast_possible_truncation, reason = "the fault that the defence prevents")]
        Err(_) if is_off(Defence::Lengths) => (value.len() + 4) as u16,
        Err(_) => return Err(Errno::MSGSIZE),
    };
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    Ok(())
}

fn terminated(name: &str) -> Vec<u8> {
    name.bytes().chain([0]).collect()
}

/// Removes the next message from `bytes`, and returns its type and its body. The body may be truncated: an error
/// message repeats the request, which may exceed the receive buffer.
fn next_message<'a>(bytes: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(HEADER..length.min(bytes.len()))?;
    *bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, body))
}

/// Returns the result of a request, from the body of an acknowledgement or of the message that ends a dump.
fn outcome(message: &[u8]) -> Result<(), Errno> {
    match message.first_chunk().map(|errno| i32::from_ne_bytes(*errno)) {
        Some(0) | None => Ok(()),
        Some(errno @ -4095..0) => Err(Errno::from_raw_os_error(-errno)),
        Some(_) => Err(Errno::PROTO),
    }
}

/// An iterator over attributes, which yields the type and value of each.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16::from_ne_bytes(*self.0.first_chunk()?));
        let kind = u16::from_ne_bytes(*self.0.get(2..)?.first_chunk()?);
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_apart() {
        let mut body = link(7, IFF_UP);
        attribute(&mut body, IFLA_IFNAME, &terminated("eth0")).unwrap();
        let two = [request(RTM_NEWLINK, 0, &body), request(NLMSG_DONE, 0, &[0; 4])].concat();
        let mut rest = &two[..];
        let (kind, message) = next_message(&mut rest).unwrap();
        assert_eq!((kind, message.get(4)), (RTM_NEWLINK, Some(&7)));
        let attributes: Vec<_> = Attributes(&message[LINK..]).collect();
        assert_eq!(attributes, [(IFLA_IFNAME, &b"eth0\0"[..])]);
        assert_eq!(next_message(&mut rest), Some((NLMSG_DONE, &[0; 4][..])));
        assert_eq!(next_message(&mut rest), None);
        for cut in 0..two.len() {
            let mut rest = &two[..cut];
            while next_message(&mut rest).is_some() {}
        }
    }

    #[test]
    fn lengths_do_not_wrap() {
        let mut body = Vec::new();
        assert_eq!(attribute(&mut body, IFLA_IFNAME, &[0; 0x1_0008]), Err(Errno::MSGSIZE));
        assert_eq!(attribute(&mut body, IFLA_IFNAME, &[0; 0xfffc]), Err(Errno::MSGSIZE));
        assert!(body.is_empty());
        assert_eq!(attribute(&mut body, IFLA_IFNAME, &[0; 0xfffb]), Ok(()));
    }

    #[test]
    fn outcomes_are_errnos() {
        assert_eq!(outcome(&[0; 20]), Ok(()));
        assert_eq!(outcome(&(-19i32).to_ne_bytes()), Err(Errno::NODEV));
        assert_eq!(outcome(&i32::MIN.to_ne_bytes()), Err(Errno::PROTO));
    }

    #[test]
    fn loopback_is_found_with_its_address() {
        let socket = Socket::open().unwrap();
        let lo = socket.index("lo").unwrap();
        assert_eq!(socket.index("no-such-device"), Err(Errno::NODEV));
        // The addresses of `lo` have host scope, so they would not be moved.
        let addresses = socket.addresses(lo).unwrap();
        assert!(addresses.iter().all(|address| !address.is_permanent_and_global()));
        assert_eq!(socket.addresses(u32::MAX), Ok(Vec::new()));
    }
}
