//! The sender of a message on a Unix socket, as the kernel names it (unix(7), SCM_PIDFD; Linux 6.5).
//!
//! A pid in a message could be a lie, or belong to another process by the time it is read. A pidfd that the kernel
//! attaches to the message refers to one process for ever. Only a sender with CAP_SYS_ADMIN over its PID namespace may
//! choose another process there (SCM_CREDENTIALS).

use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;

use crate::raw::halves;

const SOL_SOCKET: u32 = 1;
const SO_PASSPIDFD: usize = 76;
const SCM_RIGHTS: u32 = 1;
const SCM_PIDFD: u32 = 4;
const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
const MSG_DONTWAIT: usize = 0x40;

/// Asks the kernel to attach the sender's pidfd to each message that this socket receives from now on.
///
/// # Errors
/// ENOPROTOOPT before Linux 6.5.
pub fn name_senders(socket: impl AsFd) -> Result<(), Errno> {
    set(socket, SO_PASSPIDFD, 1)
}

fn set(socket: impl AsFd, option: usize, value: i32) -> Result<(), Errno> {
    // SAFETY: the option's value is four bytes, as the last argument says.
    unsafe {
        crate::raw::call(
            crate::raw::nr::SETSOCKOPT,
            crate::raw::args![socket.as_fd().as_raw_fd(), SOL_SOCKET, option, &raw const value, 4,],
        )
    }
    .map(drop)
}

/// Makes the kernel refuse messages with descriptors to this socket (SO_PASSRIGHTS, Linux 6.16). Best effort: on older
/// kernels, [`receive`] closes such descriptors.
pub fn refuse_descriptors(socket: impl AsFd) {
    const SO_PASSRIGHTS: usize = 83;
    let _ = set(socket, SO_PASSRIGHTS, 0);
}

#[repr(C)]
struct Vector {
    base: *mut u8,
    length: usize,
}

/// `struct msghdr` of a 64-bit kernel.
#[repr(C)]
struct Header {
    name: usize,
    name_length: usize,
    vectors: *const Vector,
    vector_count: usize,
    control: *mut u64,
    control_length: usize,
    flags: usize,
}

/// Receives a message and its sender's pidfd. Closes all descriptors that the sender has passed. Does not block.
///
/// # Errors
/// Those of recvmsg(2): EAGAIN if no message is pending.
pub fn receive(socket: impl AsFd, payload: &mut [u8]) -> Result<(usize, Option<OwnedFd>), Errno> {
    // Aligned for `struct cmsghdr`: a length of 8 bytes, level and type of 4 each, then the descriptors.
    let mut control = [0u64; 72];
    let vector = Vector { base: payload.as_mut_ptr(), length: payload.len() };
    let mut header = Header {
        name: 0,
        name_length: 0,
        vectors: &raw const vector,
        vector_count: 1,
        control: control.as_mut_ptr(),
        control_length: size_of_val(&control),
        flags: 0,
    };
    let length = loop {
        // SAFETY: the header refers to one buffer and one control area of the lengths given.
        let received = unsafe {
            crate::raw::call(
                crate::raw::nr::RECVMSG,
                crate::raw::args![
                    socket.as_fd().as_raw_fd(),
                    &raw mut header,
                    MSG_CMSG_CLOEXEC | MSG_DONTWAIT,
                ],
            )
        };
        match received {
            Err(Errno::INTR) => {}
            result => break result?,
        }
    };
    let words = control.get(..header.control_length / 8).unwrap_or_default();
    Ok((length, pidfd_in(words)))
}

/// Returns the pidfd of SCM_PIDFD in a control area, and closes the descriptors of SCM_RIGHTS.
fn pidfd_in(mut words: &[u64]) -> Option<OwnedFd> {
    let mut pidfd = None;
    while let [length, kind, rest @ ..] = words {
        let data = usize::try_from(*length).unwrap_or_default().saturating_sub(16);
        let [level, kind] = halves(*kind);
        let numbers = rest.iter().flat_map(|word| halves(*word).map(u32::cast_signed));
        if level == SOL_SOCKET && (kind == SCM_RIGHTS || kind == SCM_PIDFD) {
            // A negative number is an errno in place of a pidfd.
            for number in numbers.take(data / 4).filter(|number| *number >= 0) {
                // SAFETY: the kernel has just installed this descriptor for this process.
                let fd = unsafe { OwnedFd::from_raw_fd(number) };
                if kind == SCM_PIDFD {
                    pidfd = Some(fd);
                }
            }
        }
        words = rest.get(data.div_ceil(8)..).unwrap_or_default();
    }
    pidfd
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn the_kernel_names_the_sender() {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let mut payload = [0; 8];
        assert_eq!(receive(&ours, &mut payload).unwrap_err(), Errno::AGAIN);
        if name_senders(&ours) == Err(Errno::NOPROTOOPT) {
            eprintln!("skipped: SO_PASSPIDFD requires Linux 6.5");
            return;
        }
        crate::fdpass::send(&theirs, b"P", ours.as_fd()).unwrap();
        let (length, pidfd) = receive(&ours, &mut payload).unwrap();
        assert_eq!(payload.get(..length), Some(&b"P"[..]));
        let pidfd = pidfd.unwrap();
        let link = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
        let info = std::fs::read_to_string(link).unwrap();
        assert!(info.contains(&format!("Pid:\t{}\n", std::process::id())), "{info}");
    }
}
