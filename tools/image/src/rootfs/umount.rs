//! `dayfly rootfs umount`

use super::mounted::{Mounted, try_lock};
use super::options::Umount;
use super::{Result, at};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

/// Unmounts a root filesystem, and removes its changes and its id range.
pub(super) fn umount(options: &Umount) -> Result<()> {
    let directory = std::fs::canonicalize(&options.directory)
        .map_err(at(format_args!("open {}", options.directory.display())))?;
    let home = Mounted::home_of(&options.places.store()?, &directory);
    let unknown = || format!("{} was not mounted by dayfly", directory.display());
    let record = Mounted::read(&home)?.ok_or_else(unknown)?;
    let busy = || format!("somebody is at work on {}", directory.display());
    let _lock = try_lock(&home)?.ok_or_else(busy)?;
    let lazy = if options.lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match unmount(&directory, lazy | UnmountFlags::NOFOLLOW) {
        Ok(()) => {}
        // EINVAL: nothing is mounted there in this mount namespace.
        Err(Errno::INVAL) if !options.lazy && record.may_exist()? => {
            return Err(format!(
                "{} is mounted in another mount namespace (--lazy removes its changes nevertheless)",
                directory.display()
            ));
        }
        Err(Errno::INVAL) => {}
        Err(Errno::BUSY) => {
            return Err(format!(
                "{} is in use (--lazy unmounts it nevertheless)",
                directory.display()
            ));
        }
        Err(errno) => return Err(format!("umount {}: {errno}", directory.display())),
    }
    record.release(&options.places.leases()?).map(drop)
}
