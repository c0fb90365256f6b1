//! `delete`: removes everything left by a container whose shim has exited, or no longer has a client for the container.
//!
//! containerd runs `delete` whenever its connection to the shim has closed, even after a normal exit, and the client
//! that deletes the container waits for the result. So if nothing is left, `delete` creates nothing and makes few
//! checks. `delete` may be repeated.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use container::{Removed, Store, Trace, Warn, unmount_on_host};
use proto::messages::task::DeleteResponse;
use rustix::fs::{Access, CWD, access};
use rustix::io::Errno;
use serde::Deserialize;

use super::bundle::{BundleState, Exit, state_root};
use super::{Failure, address, ask, socket};
use crate::flags::Flags;
use crate::table::Time;

/// The exit status that is reported for a container whose exit is unknown: that of a process killed by SIGKILL.
pub const KILLED: u32 = 128 + 9;
/// The file in a bundle where containerd stores the shim's address.
const BOOTSTRAP: &str = "bootstrap.json";
/// The file in a bundle where the shim stores its address, for older versions of containerd.
pub(super) const ADDRESS: &str = "address";

/// Deletes the container. Failures that are ignored are passed to `warn`.
///
/// # Errors
/// If the container still exists afterwards. In that case its bundle is kept, so that `delete` can be repeated.
pub fn delete(
    args: sys::Args,
    flags: &Flags<'_>,
    warn: &dyn Fn(&str),
) -> Result<DeleteResponse, Failure> {
    let bundle = bundle(flags)?;
    let state = BundleState::read(&bundle).unwrap_or_else(|failure| {
        warn(&failure.to_string());
        None
    });
    let (root, exit) = match state {
        Some(BundleState { root, exit }) => (root, exit),
        None => (state_root("", flags.namespace), None),
    };
    let removed = ask_shim(&bundle, flags.id);
    let pid = remove_container(args, &root, flags.id, warn)?;
    if let Err(error) = unmount_on_host(&format!("{bundle}/rootfs")) {
        warn(&error.to_string());
    }
    if let Err(error) = remove_socket(&bundle) {
        warn(&error.to_string());
    }
    let now = Time::now().to_message();
    // The shim has answered, so it knew more than its file.
    if let Some(response) = removed {
        return Ok(response);
    }
    Ok(match exit {
        Some(Exit { pid, status, at }) => {
            let exited_at = Time::of_nanoseconds(at).to_message();
            DeleteResponse { pid, exit_status: status, exited_at: Some(exited_at) }
        }
        None => DeleteResponse { pid, exit_status: KILLED, exited_at: Some(now) },
    })
}

/// Returns the bundle's absolute path. Without the flag `-bundle`, the working directory is the bundle of this or of
/// another container. As in containerd-shim-runc-v2, the bundle is then the directory beside the working directory that
/// is named after the id.
fn bundle(flags: &Flags<'_>) -> Result<String, Failure> {
    if flags.bundle.starts_with('/') {
        return Ok(flags.bundle.to_string());
    }
    let here = super::working_directory()?;
    Ok(match here.rsplit_once('/') {
        Some((above, _)) if flags.bundle.is_empty() => format!("{above}/{}", flags.id),
        _ => format!("{here}/{}", flags.bundle),
    })
}

/// Removes the container with all its processes; returns its init's pid, or 0 if the pid is unknown.
fn remove_container(
    args: sys::Args,
    root: &str,
    id: &str,
    warn: &dyn Fn(&str),
) -> Result<u32, Failure> {
    // `Store::open` would create the root.
    if access(format!("{root}/{id}").as_str(), Access::EXISTS) == Err(Errno::NOENT) {
        return Ok(0);
    }
    let trace: &'static Trace = Box::leak(Box::new(Trace::new("delete", args, 0, None)));
    let store = Store::open(root, trace)?;
    let warn = Warn { record: warn, print: warn };
    match store.delete(id, true, warn)? {
        Removed::Container(pid) => Ok(u32::try_from(pid).unwrap_or(0)),
        Removed::Remains(_) => Ok(0),
    }
}

/// If the bundle's shim is running, asks it to remove the container, and returns its answer. If the shim was killed,
/// waits until none of its workers is running, because a worker could still create something.
fn ask_shim(bundle: &str, id: &str) -> Option<DeleteResponse> {
    let found = address_in(bundle)?;
    let (directory, name) = address::parse(&found)?;
    ask::remove(&format!("{directory}/{name}"), id)
}

/// If no process listens on the shim's socket, removes the socket, and the file `address` in the bundle. Otherwise the
/// shim still serves other containers, and both stay.
fn remove_socket(bundle: &str) -> Result<(), sys::Error> {
    let Some(found) = address_in(bundle) else { return Ok(()) };
    let Some((directory, name)) = address::parse(&found) else { return Ok(()) };
    let path = format!("{directory}/{name}");
    if socket::remove_abandoned(&path)? {
        let path = format!("{bundle}/{ADDRESS}");
        match rustix::fs::unlink(path.as_str()) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(sys::Error::new("unlink", path, errno)),
        }
    }
    Ok(())
}

/// The part of bootstrap.json that `delete` needs.
#[derive(Deserialize)]
struct Bootstrap {
    address: String,
}

/// Returns the address of the bundle's shim, which may have exited.
fn address_in(bundle: &str) -> Option<String> {
    let read = |name: &str| -> Option<Vec<u8>> {
        sys::fs::read_at(CWD, format!("{bundle}/{name}").as_str()).ok()
    };
    if let Some(bytes) = read(ADDRESS) {
        return String::from_utf8(bytes).ok();
    }
    Some(serde_json::from_slice::<Bootstrap>(&read(BOOTSTRAP)?).ok()?.address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::messages::time::Timestamp;

    #[test]
    fn nothing_is_left_of_nothing() {
        let flags = Flags {
            id: "web",
            namespace: "no-such-namespace",
            bundle: "/nonexistent/web",
            ..Flags::default()
        };
        for _ in 0..2 {
            let warn = |text: &str| panic!("{text}");
            let answer = delete(sys::Args::empty(), &flags, &warn).unwrap();
            assert_eq!((answer.pid, answer.exit_status), (0, 137));
            assert!(answer.exited_at.is_some_and(|time| time.seconds > 1_700_000_000));
        }
    }

    #[test]
    fn what_the_shim_knew_is_answered() {
        let dir = std::env::temp_dir().join(format!("dayfly-shim-delete-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let bundle = dir.to_str().unwrap();
        let exit = Exit { pid: 42, status: 3, at: 5_000_000_007 };
        BundleState { root: "/nonexistent".into(), exit: Some(exit) }.write(bundle).unwrap();
        let socket = dir.join("0123456789abcdef".repeat(4));
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        std::fs::write(dir.join(ADDRESS), format!("unix://{}", socket.display())).unwrap();
        let flags = Flags { id: "web", namespace: "n", bundle, ..Flags::default() };
        let answer = delete(sys::Args::empty(), &flags, &|text| panic!("{text}")).unwrap();
        assert_eq!((answer.pid, answer.exit_status), (42, 3));
        assert_eq!(answer.exited_at, Some(Timestamp { seconds: 5, nanos: 7 }));
        assert!(!socket.exists() && !dir.join(ADDRESS).exists());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn bundles() {
        let here = super::super::working_directory().unwrap();
        let above = here.rsplit_once('/').unwrap().0;
        let flags = |bundle| Flags { id: "web", bundle, ..Flags::default() };
        assert_eq!(bundle(&flags("/b/web")).unwrap(), "/b/web");
        assert_eq!(bundle(&flags("")).unwrap(), format!("{above}/web"));
        assert_eq!(bundle(&flags("b")).unwrap(), format!("{here}/b"));
    }
}
