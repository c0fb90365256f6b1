//! `dayfly rootfs umount`

use super::mounted::{Mounted, try_lock};
use super::options::Umount;
use crate::error::{Error, Result, bail, unfit};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

/// Unmounts a root filesystem, and removes its changes and its id range.
pub(super) fn umount(options: &Umount) -> Result<()> {
    let directory =
        std::fs::canonicalize(&options.directory).map_err(Error::at("open", &options.directory))?;
    let home = Mounted::home_of(&options.places.store.directory()?, &directory);
    let shown = directory.display();
    let record =
        Mounted::read(&home)?.ok_or_else(|| unfit!("{shown} was not mounted by dayfly"))?;
    let _lock =
        try_lock(&home)?.ok_or_else(|| unfit!("{shown} is in use by another command of dayfly"))?;
    let lazy = if options.lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match unmount(&directory, lazy | UnmountFlags::NOFOLLOW) {
        Ok(()) => {}
        // EINVAL: nothing is mounted there in this mount namespace.
        Err(Errno::INVAL) if !options.lazy && record.may_exist()? => bail!(
            "{shown} is mounted in another mount namespace (--lazy removes its changes nevertheless)"
        ),
        Err(Errno::INVAL) => {}
        Err(Errno::BUSY) => bail!("{shown} is in use (--lazy unmounts it nevertheless)"),
        Err(errno) => return Err(Error::at("umount", &directory)(errno)),
    }
    record.release(&options.places.leases()?).map(drop)
}
