//! The age of a process in microseconds.
//!
//! /proc/PID/stat gives a process's start time in ticks of 10 ms, which is longer than the start of a container takes.
//! The taskstats family of generic netlink gives the age in microseconds
//! (Documentation/accounting/taskstats-struct.rst).

use alloc_crate::vec::Vec;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use rustix::process::Pid;

/// GENL_ID_CTRL: the family that resolves the names of other families.
const CONTROL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const TASKSTATS_CMD_GET: u8 = 1;
const TASKSTATS_CMD_ATTR_PID: u16 = 1;
const TASKSTATS_TYPE_STATS: u16 = 3;
const TASKSTATS_TYPE_AGGR_PID: u16 = 4;
/// Size in bytes of `struct nlmsghdr`, and of `struct nlmsghdr` followed by `struct genlmsghdr`.
const HEADER: usize = 16;
const HEADERS: usize = 20;
/// Offsets of ac_pid and ac_etime in `struct taskstats`.
const PID: usize = 128;
const ELAPSED: usize = 144;

/// Returns the age in microseconds of `pid`, a pid in the initial PID namespace.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN; ENOENT on a kernel without CONFIG_TASKSTATS; EPROTO if the answer is for another
/// process.
pub fn age(pid: Pid) -> Result<u64, Errno> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::GENERIC),
    )?;
    let mut buffer = [0u8; 2048];
    let mut ask = |family: u16, command: u8, attribute: u16, value: &[u8]| {
        send(&socket, &request(family, command, attribute, value), SendFlags::empty())?;
        let length = recv(&socket, &mut buffer, RecvFlags::empty())?.0;
        answer(buffer.get(..length).unwrap_or_default()).map(<[u8]>::to_vec)
    };
    let about = ask(CONTROL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, b"TASKSTATS\0")?;
    let family = attribute(&about, CTRL_ATTR_FAMILY_ID).and_then(|id| id.first_chunk());
    let family = u16::from_ne_bytes(*family.ok_or(Errno::PROTO)?);
    let pid = pid.as_raw_pid().to_ne_bytes();
    let about = ask(family, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_PID, &pid)?;
    let stats = attribute(&about, TASKSTATS_TYPE_AGGR_PID)
        .and_then(|nested| attribute(nested, TASKSTATS_TYPE_STATS))
        .filter(|stats| stats.get(PID..PID + 4) == Some(&pid));
    let elapsed = stats.and_then(|stats| stats.get(ELAPSED..)?.first_chunk());
    Ok(u64::from_ne_bytes(*elapsed.ok_or(Errno::PROTO)?))
}

/// Builds a request with one attribute.
fn request(family: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    const NLM_F_REQUEST: u16 = 1;
    let length = (HEADERS + 4 + value.len()).next_multiple_of(4);
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend(u16::try_from(value.len() + 4).unwrap_or(u16::MAX).to_ne_bytes());
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length, 0);
    bytes
}

/// Returns the attributes of an answer.
fn answer(bytes: &[u8]) -> Result<&[u8], Errno> {
    const NLMSG_ERROR: u16 = 2;
    let kind = bytes.get(4..6).and_then(|kind| kind.first_chunk());
    let body = bytes.get(HEADER..).ok_or(Errno::PROTO)?;
    if kind.map(|kind| u16::from_ne_bytes(*kind)) == Some(NLMSG_ERROR) {
        let errno = body.first_chunk().map_or(0, |errno| i32::from_ne_bytes(*errno));
        return Err(Errno::from_raw_os_error(errno.saturating_neg().max(1)));
    }
    body.get(HEADERS - HEADER..).ok_or(Errno::PROTO)
}

/// Returns the value of the first attribute of a type.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?);
        let value = bytes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_behind_others() {
        let bytes = [5, 0, 1, 0, 9, 0, 0, 0, 6, 0, 2, 0, 7, 8];
        assert_eq!(attribute(&bytes, 1), Some(&[9][..]));
        assert_eq!(attribute(&bytes, 2), Some(&[7, 8][..]));
        assert_eq!(attribute(&bytes, 3), None);
        for bad in [&[][..], &[0, 0, 1, 0], &[3, 0, 1, 0], &[200, 0, 1, 0, 1]] {
            assert_eq!(attribute(bad, 1), None);
        }
    }

    #[test]
    fn errors_are_the_kernels() {
        let mut bytes = [0u8; 24];
        bytes[4] = 2;
        bytes[16..20].copy_from_slice(&(-1i32).to_ne_bytes());
        assert_eq!(answer(&bytes), Err(Errno::PERM));
    }

    #[test]
    fn knows_how_old_this_process_is() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: taskstats takes CAP_NET_ADMIN");
            return;
        }
        let before = age(rustix::process::getpid()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let after = age(rustix::process::getpid()).unwrap();
        assert!((2000..10_000_000).contains(&(after - before)), "{before} {after}");
    }
}
