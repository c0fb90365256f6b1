//! The receiver's end of `--console-socket` and `--pidfd-socket`.

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::fs::File;
use std::io::{IoSliceMut, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// A listening socket that receives one file descriptor.
pub struct FdSocket {
    /// The path for the runtime.
    pub path: PathBuf,
    listener: UnixListener,
}

impl FdSocket {
    /// Makes a socket in `dir`.
    ///
    /// # Panics
    /// When the socket can't be bound.
    #[must_use]
    pub fn new(dir: &Path, name: &str) -> Self {
        let path = dir.join(name);
        let listener = UnixListener::bind(&path).expect("bind socket");
        Self { path, listener }
    }

    /// Returns the path as text.
    #[must_use]
    pub fn arg(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Returns the received descriptor, and the bytes sent with it.
    ///
    /// # Panics
    /// When no descriptor was sent.
    #[track_caller]
    #[must_use]
    pub fn receive(&self) -> (OwnedFd, String) {
        let (stream, _) = self.listener.accept().expect("accept");
        let mut bytes = [0; 4096];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let message =
            recvmsg(&stream, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty())
                .expect("receive");
        let fd = control.drain().find_map(|part| match part {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        let text = String::from_utf8_lossy(&bytes[..message.bytes]).into_owned();
        (fd.expect("a descriptor"), text)
    }
}

/// Reads the terminal's master until the slave is closed.
#[must_use]
pub fn read_all(master: OwnedFd) -> String {
    let mut file = File::from(master);
    let mut text = Vec::new();
    let mut bytes = [0; 4096];
    // Reading a pty fails with EIO, rather than returning an empty read, once the slave is closed.
    while let Ok(count @ 1..) = file.read(&mut bytes) {
        text.extend_from_slice(&bytes[..count]);
    }
    String::from_utf8_lossy(&text).into_owned()
}
