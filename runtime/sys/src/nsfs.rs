//! The type and the owner of a namespace that is given by a descriptor (ioctl_nsfs(2)).

use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

use crate::clone::CloneFlags;

/// NSFS_MAGIC of linux/magic.h: the file system of namespace files.
const MAGIC: i64 = 0x6e73_6673;
const NS_GET_USERNS: usize = 0xb701;
const NS_GET_NSTYPE: usize = 0xb703;

/// Returns the type of the namespace that `fd` refers to (Linux 4.11).
///
/// # Errors
/// ENOTTY if `fd` is not a namespace.
pub fn kind(fd: BorrowedFd<'_>) -> Result<CloneFlags, Errno> {
    // Files on other file systems may give the ioctl number another meaning.
    if rustix::fs::fstatfs(fd)?.f_type != MAGIC {
        return Err(Errno::NOTTY);
    }
    // SAFETY: the request takes no argument.
    let kind = unsafe {
        crate::raw::call(crate::raw::nr::IOCTL, crate::raw::args![fd.as_raw_fd(), NS_GET_NSTYPE])
    }?;
    Ok(CloneFlags::from_bits_retain(kind as u64))
}

/// Opens the user namespace that owns the namespace of `fd` (Linux 4.9).
///
/// # Errors
/// ENOTTY if `fd` is not a namespace; EPERM if the owner is outside the caller's user namespace.
pub fn owner(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    kind(fd)?;
    // SAFETY: the request takes no argument.
    let owner = unsafe {
        crate::raw::call(crate::raw::nr::IOCTL, crate::raw::args![fd.as_raw_fd(), NS_GET_USERNS])
    }?;
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { crate::raw::new_fd(owner) })
}

/// Returns whether two descriptors refer to the same namespace (namespaces(7), "The /proc/pid/ns/ directory").
///
/// # Errors
/// Those of fstat(2).
pub fn is_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Result<bool, Errno> {
    let (one, other) = (rustix::fs::fstat(one)?, rustix::fs::fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::fs::{CWD, Mode, OFlags, openat};

    #[test]
    fn namespaces_have_kinds_and_files_have_none() {
        let kind = |path| kind(openat(CWD, path, OFlags::RDONLY, Mode::empty()).unwrap().as_fd());
        assert_eq!(kind(c"/proc/self/ns/mnt"), Ok(CloneFlags::NEWNS));
        assert_eq!(kind(c"/proc/self/ns/net"), Ok(CloneFlags::NEWNET));
        assert_eq!(kind(c"/dev/null"), Err(Errno::NOTTY));
        let network = openat(CWD, c"/proc/self/ns/net", OFlags::RDONLY, Mode::empty()).unwrap();
        assert_eq!(
            owner(network.as_fd()).and_then(|fd| super::kind(fd.as_fd())),
            Ok(CloneFlags::NEWUSER)
        );
    }
}
