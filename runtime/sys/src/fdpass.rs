//! Passes descriptors over Unix sockets (unix(7), SCM_RIGHTS).

use core::mem::MaybeUninit;
use core::time::Duration;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, socket_with,
};

/// Sends `fd` together with a few bytes, without allocating.
///
/// # Errors
/// Those of sendmsg(2).
pub fn send(socket: impl AsFd, payload: &[u8], fd: BorrowedFd<'_>) -> Result<(), Errno> {
    send_some(socket, payload, fd).map(drop)
}

/// Sends `fd` together with a message that may be long, over a stream socket.
///
/// # Errors
/// Those of sendmsg(2).
pub fn send_whole(socket: impl AsFd, payload: &[u8], fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut sent = loop {
        match send_some(&socket, payload, fd) {
            Err(Errno::INTR) => {}
            result => break result?,
        }
    };
    while let Some(rest) = payload.get(sent..).filter(|rest| !rest.is_empty()) {
        match rustix::net::send(&socket, rest, SendFlags::NOSIGNAL) {
            Ok(more) => sent += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The largest number of descriptors that [`send_all`] passes.
pub const MOST: usize = 32;

/// Sends several descriptors together with a message, in their order.
///
/// # Errors
/// Those of sendmsg(2); EINVAL for more than [`MOST`] descriptors.
pub fn send_all(socket: impl AsFd, payload: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if fds.len() > MOST || !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL);
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(payload)], &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            result => return result.map(drop),
        }
    }
}

fn send_some(socket: impl AsFd, payload: &[u8], fd: BorrowedFd<'_>) -> Result<usize, Errno> {
    let fds = [fd];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(socket, &[IoSlice::new(payload)], &mut control, SendFlags::NOSIGNAL)
}

/// Receives up to `payload.len()` bytes, and the descriptor that was sent with them, if any. The received descriptor is
/// close-on-exec.
///
/// # Errors
/// Those of recvmsg(2).
pub fn receive(socket: impl AsFd, payload: &mut [u8]) -> Result<(usize, Option<OwnedFd>), Errno> {
    receive_by(RecvFlags::empty(), socket, payload)
}

/// Does the same as [`receive`], but never blocks.
///
/// # Errors
/// Those of recvmsg(2): EAGAIN if no message is pending.
pub fn receive_now(
    socket: impl AsFd,
    payload: &mut [u8],
) -> Result<(usize, Option<OwnedFd>), Errno> {
    receive_by(RecvFlags::DONTWAIT, socket, payload)
}

fn receive_by(
    flags: RecvFlags,
    socket: impl AsFd,
    payload: &mut [u8],
) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let into = &mut [IoSliceMut::new(payload)];
        match recvmsg(socket.as_fd(), into, &mut control, flags | RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            result => break result?,
        }
    };
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((received.bytes, fd))
}

/// The time for which [`dial`] and sending wait for a peer that does not read.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connects a new stream socket to the Unix socket at this path. Neither this call nor sending waits longer than ten
/// seconds for the peer: connect(2) waits while its backlog is full.
///
/// # Errors
/// Those of connect(2): EAGAIN if the backlog stays full; ENAMETOOLONG for paths over 107 bytes.
pub fn dial(path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    dial_within(path, PATIENCE)
}

fn dial_within(path: impl rustix::path::Arg, patience: Duration) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A listener that accepts nothing has room for a few connections.
    #[test]
    fn a_full_backlog_is_an_error() {
        let path = std::env::temp_dir().join(format!("dayfly-dial-{}", std::process::id()));
        let flags = SocketFlags::CLOEXEC;
        let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let address = SocketAddrUnix::new(path.to_str().unwrap()).unwrap();
        rustix::net::bind(&listener, &address).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let dial = || dial_within(path.to_str().unwrap(), Duration::from_millis(20));
        let others: std::vec::Vec<_> = core::iter::from_fn(|| dial().ok()).take(100).collect();
        assert!(others.len() < 100);
        assert_eq!(dial().unwrap_err(), Errno::AGAIN);
        std::fs::remove_file(&path).unwrap();
    }
}
