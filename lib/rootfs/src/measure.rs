//! The extent of a directory tree, by which a truncated copy is recognized.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;
use sys::Context;

use crate::Error;
use crate::copy::LONGEST_PATH;
use crate::remove::{names, open_directory};

/// The extent of a directory tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// The number of names below the directory.
    pub names: u64,
    /// The sum of the lengths of files and links in bytes. A file with several names counts once for each of them.
    pub bytes: u64,
}

impl Extent {
    /// Measures the tree below a directory. Follows no links.
    ///
    /// # Errors
    /// The error names the file that cannot be examined; ENAMETOOLONG for a tree that is deeper than PATH_MAX.
    pub fn of(directory: BorrowedFd<'_>) -> Result<Self, Error> {
        let mut extent = Self::default();
        extent.add(directory, b"")?;
        Ok(extent)
    }

    fn add(&mut self, directory: BorrowedFd<'_>, path: &[u8]) -> Result<(), Error> {
        let shown = |path: &[u8]| format!("/{}", String::from_utf8_lossy(path));
        // Bounds the depth, and with it the stack that this function uses.
        if path.len() >= LONGEST_PATH {
            return Err(sys::Error::new("measure", shown(path), Errno::NAMETOOLONG).into());
        }
        for name in names(directory).context("read", shown(path))? {
            let place: Vec<u8> = match path {
                b"" => name.to_bytes().to_vec(),
                path => [path, name.to_bytes()].join(&b'/'),
            };
            let stat = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)
                .context("stat", shown(&place))?;
            self.names += 1;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    let below = open_directory(directory, &name).context("open", shown(&place))?;
                    self.add(below.as_fd(), &place)?;
                }
                // The length of anything else depends on the file system.
                FileType::RegularFile | FileType::Symlink => {
                    self.bytes = self.bytes.wrapping_add(u64::try_from(stat.st_size).unwrap_or(0));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    #[test]
    fn a_lost_name_and_a_lost_byte() {
        let top = std::env::temp_dir().join(format!("dayfly-extent-{}", std::process::id()));
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/b/file"), "12345").unwrap();
        fs::hard_link(top.join("a/b/file"), top.join("other")).unwrap();
        std::os::unix::fs::symlink("/etc", top.join("a/link")).unwrap();
        let look = || Extent::of(File::open(&top).unwrap().as_fd()).unwrap();
        assert_eq!(look(), Extent { names: 5, bytes: 14 });
        fs::write(top.join("other"), "1234").unwrap();
        assert_eq!(look(), Extent { names: 5, bytes: 12 });
        fs::remove_file(top.join("a/link")).unwrap();
        assert_eq!(look(), Extent { names: 4, bytes: 8 });
        fs::remove_dir_all(top).unwrap();
    }
}
