//! Reads a file from layers without mounting them. The result is what an overlayfs mount would show, except that links
//! are not followed.

use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Stat, fgetxattr, statat};
use rustix::io::Errno;
use sys::fs::Owned;

use crate::layers::{open_directory, open_layer};
use crate::{Error, Layers, remove};

/// Reads the regular file `name` in `directory`, a subdirectory of the root, from the topmost layer that contains the
/// file. Returns `None` if no layer contains it, or if a higher layer removes it.
///
/// # Errors
/// ELOOP for a link or a special file; EFBIG for more than `limit` bytes; ENOENT for a missing layer.
pub fn read(
    layers: &Layers,
    directory: &CStr,
    name: &CStr,
    limit: usize,
) -> Result<Option<Vec<u8>>, Error> {
    let object =
        || format!("/{}/{} of the image", directory.to_string_lossy(), name.to_string_lossy());
    read_in(layers, directory, name, limit)
        .map_err(|errno| sys::Error::new("read", object(), errno).into())
}

fn read_in(
    layers: &Layers,
    directory: &CStr,
    name: &CStr,
    limit: usize,
) -> Result<Option<Vec<u8>>, Errno> {
    for layer in &layers.stack {
        let parent = layers.parents.get(layer.parent).ok_or(Errno::BADF)?;
        let root = open_layer(open_directory(parent)?.as_fd(), &layer.name)?;
        let stat = match look(root.as_fd(), directory)? {
            None => continue,
            Some(stat) if is_whiteout(&stat) => return Ok(None),
            Some(stat) => stat,
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Err(Errno::LOOP);
        }
        let opened = remove::open_directory(root.as_fd(), directory)?;
        match look(opened.as_fd(), name)? {
            None if is_opaque(&opened) => return Ok(None),
            None => continue,
            Some(stat) if is_whiteout(&stat) => return Ok(None),
            Some(_) => {}
        }
        return match sys::fs::read_owned_at(opened.as_fd(), name, |_| true, limit)? {
            Owned::Read(bytes) => Ok(Some(bytes)),
            Owned::Special | Owned::Foreign(_) => Err(Errno::LOOP),
        };
    }
    Ok(None)
}

/// Returns the attributes of a name in a directory, or `None` if it does not exist.
pub(crate) fn look(directory: BorrowedFd<'_>, name: &CStr) -> Result<Option<Stat>, Errno> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns whether a file is a whiteout, which removes the name from lower layers.
pub(crate) fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// Returns whether a directory hides the directories of the same name in lower layers. The extended attribute that
/// marks such a directory depends on whether this process is in a nested user namespace.
fn is_opaque(directory: &OwnedFd) -> bool {
    let mark = match sys::user_namespace::is_nested() {
        true => c"user.overlay.opaque",
        false => c"trusted.overlay.opaque",
    };
    let mut value = [0u8; 2];
    matches!(fgetxattr(directory, mark, &mut value[..]), Ok(1) if value[0] == b'y')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_top_layer_counts_and_links_are_not_followed() {
        let dir = std::env::temp_dir().join(format!("dayfly-look-{}", std::process::id()));
        for layer in ["a", "b", "c"] {
            fs::create_dir_all(dir.join(layer)).unwrap();
        }
        let text: String =
            ["a", "b", "c"].map(|name| format!("{}\n", dir.join(name).display())).concat();
        let layers = Layers::anywhere(&text).unwrap();
        let get = |limit| read(&layers, c"etc", c"passwd", limit);
        assert_eq!(get(9), Ok(None));
        fs::create_dir(dir.join("a/etc")).unwrap();
        fs::write(dir.join("a/etc/passwd"), "below").unwrap();
        assert_eq!(get(9), Ok(Some(b"below".to_vec())));
        assert!(matches!(get(3), Err(Error::System(error)) if error.errno == Errno::FBIG));
        fs::create_dir(dir.join("b/etc")).unwrap();
        fs::write(dir.join("b/etc/passwd"), "above").unwrap();
        assert_eq!(get(9), Ok(Some(b"above".to_vec())));
        fs::create_dir(dir.join("c/etc")).unwrap();
        assert_eq!(get(9), Ok(Some(b"above".to_vec())));
        let is_link = || matches!(get(9), Err(Error::System(error)) if error.errno == Errno::LOOP);
        symlink("/etc/passwd", dir.join("c/etc/passwd")).unwrap();
        assert!(is_link());
        fs::remove_dir_all(dir.join("c/etc")).unwrap();
        symlink("/etc", dir.join("c/etc")).unwrap();
        assert!(is_link());
        fs::remove_dir_all(dir).unwrap();
    }
}
