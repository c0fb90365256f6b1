//! Brings up the loopback interface, which is the only setup that a runtime must do in a new network namespace. Also
//! checks whether a Unix socket has unread data.

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

const SIOCSIFFLAGS: usize = 0x8914;
const IFF_UP: u16 = 1;

/// `struct ifreq` (netdevice(7)) with the flags member of its union.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// Brings up `lo` in the current network namespace.
///
/// # Errors
/// Those of socket(2) and netdevice(7).
pub fn loopback_up() -> Result<(), Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut request = InterfaceRequest { name: [0; 16], flags: IFF_UP, rest: [0; 22] };
    if let Some(name) = request.name.get_mut(..2) {
        name.copy_from_slice(b"lo");
    }
    // SAFETY: SIOCSIFFLAGS reads a struct ifreq, which is 40 bytes.
    unsafe {
        crate::raw::call(
            crate::raw::nr::IOCTL,
            crate::raw::args![socket.as_raw_fd(), SIOCSIFFLAGS, &raw const request],
        )
    }
    .map(drop)
}

/// Returns whether some data that was sent over the Unix socket `socket` has not been read at the other end yet
/// (SIOCOUTQ). Returns false if this cannot be determined.
pub fn has_unread(socket: impl AsFd) -> bool {
    const SIOCOUTQ: usize = 0x5411;
    let mut bytes: i32 = 0;
    // SAFETY: the kernel writes one int to the live variable.
    let result = unsafe {
        crate::raw::call(
            crate::raw::nr::IOCTL,
            crate::raw::args![socket.as_fd().as_raw_fd(), SIOCOUTQ, &raw mut bytes],
        )
    };
    result.is_ok() && bytes > 0
}
