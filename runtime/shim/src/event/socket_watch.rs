//! Reports the creation of a socket, using inotify(7) on the socket's directory, or on its nearest existing ancestor.

use alloc::string::{String, ToString};
use core::mem::MaybeUninit;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;

/// The size of the buffer for inotify events. It holds at least a few events, each of which may contain a name of 255
/// bytes.
const EVENTS: usize = 1024;

/// An inotify watch for the creation of a path's first missing component.
#[derive(Debug)]
pub(super) struct SocketWatch {
    fd: OwnedFd,
    /// The name of the awaited file or directory.
    name: String,
    /// The path of the awaited directory; `None` if the socket itself is awaited.
    on_the_way: Option<String>,
}

impl SocketWatch {
    /// Watches for `path`, which may already exist. Changes made before this function returns may not be reported, so
    /// the caller must check the path again afterwards, and call [`SocketWatch::is_passed`].
    ///
    /// # Errors
    /// Those of inotify_init1(2) and inotify_add_watch(2), which limit the number of instances and watches per user.
    pub fn watch(path: &str) -> Result<Self, Errno> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        // A server creates its socket with bind(2), calls listen(2), and then sets the socket's mode and owner. Between
        // the first and the last of these changes, the socket may still refuse connections.
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let mut rest = path.trim_end_matches('/');
        loop {
            let (above, name) = rest.rsplit_once('/').unwrap_or((".", rest));
            let directory = if above.is_empty() { "/" } else { above };
            match inotify::add_watch(&fd, directory, flags) {
                Ok(_) => {
                    let is_on_the_way = rest.len() < path.trim_end_matches('/').len();
                    let on_the_way = is_on_the_way.then(|| rest.to_string());
                    return Ok(Self { fd, name: name.to_string(), on_the_way });
                }
                Err(Errno::NOENT | Errno::NOTDIR) if directory != "/" && directory != "." => {
                    rest = above;
                }
                Err(errno) => return Err(errno),
            }
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns whether the awaited directory exists. If so, the path's next component must be watched.
    pub fn is_passed(&self) -> bool {
        let path = self.on_the_way.as_deref();
        path.is_some_and(|path| accessat(CWD, path, Access::EXISTS, AtFlags::empty()).is_ok())
    }

    /// Reads the inotify events, and returns whether the path should be checked again. One of the events may report the
    /// removal of the watched directory itself.
    pub fn has_changed(&self) -> bool {
        let mut space = [MaybeUninit::uninit(); EVENTS];
        let mut reader = Reader::new(&self.fd, &mut space);
        let mut is_ours = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    let of_itself = ReadFlags::DELETE_SELF
                        | ReadFlags::MOVE_SELF
                        | ReadFlags::IGNORED
                        | ReadFlags::QUEUE_OVERFLOW
                        | ReadFlags::UNMOUNT;
                    let has_name = event
                        .file_name()
                        .is_some_and(|name| name.to_bytes() == self.name.as_bytes());
                    is_ours |= has_name || event.events().intersects(of_itself);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return is_ours,
                Err(_) => return true,
            }
        }
    }
}
