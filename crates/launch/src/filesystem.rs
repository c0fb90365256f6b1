//! New file systems, mounted nowhere yet. By init, or by the host actor where they are made from something of
//! the host's; so without allocation.
#![allow(clippy::result_large_err, reason = "as in failure.rs")]

use alloc::ffi::CString;

use plan::step::MountFs;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount,
    fsopen,
};
use sys::mount::{MountAttr, MountAttrFlags, mount_setattr};

use crate::failure::{Failure, Op};

/// Makes it, with its attributes and propagation.
pub(crate) fn make(step: &MountFs) -> Result<OwnedFd, Failure> {
    let context = fsopen(&step.kind, FsOpenFlags::FSOPEN_CLOEXEC).op("fsopen")?;
    let configured = configure(context.as_fd(), step);
    let result = configured.and_then(|()| {
        fsmount(
            context.as_fd(),
            FsMountFlags::FSMOUNT_CLOEXEC,
            MountAttrFlags::from_bits_retain(step.attr.set as u32),
        )
        .op("fsmount")
    });
    let tree = result.map_err(|failure| with_kernel_log(failure, context.as_fd()))?;
    if step.attr.propagation != 0 {
        let attr = MountAttr { propagation: step.attr.propagation, ..MountAttr::default() };
        mount_setattr(tree.as_fd(), false, &attr).op("mount_setattr")?;
    }
    Ok(tree)
}

fn configure(context: BorrowedFd<'_>, step: &MountFs) -> Result<(), Failure> {
    fsconfig_set_string(context, c"source", &step.source).op("fsconfig source")?;
    set(context, &step.parameters)?;
    fsconfig_create(context).op("fsconfig create")
}

/// Sets options of a file system.
pub(crate) fn set(
    context: BorrowedFd<'_>,
    parameters: &[(CString, Option<CString>)],
) -> Result<(), Failure> {
    for (key, value) in parameters {
        match value {
            Some(value) => fsconfig_set_string(context, key, value),
            None => fsconfig_set_flag(context, key),
        }
        .map_err(|errno| Failure::new("fsconfig", errno).with(key.to_bytes()))?;
    }
    Ok(())
}

/// The kernel says what it did not like on the context's descriptor: "e tmpfs: Bad value for 'size'".
pub(crate) fn with_kernel_log(failure: Failure, context: BorrowedFd<'_>) -> Failure {
    let mut text = [0u8; 160];
    match rustix::io::read(context, &mut text) {
        Ok(length) if length > 2 => {
            failure.with(text.get(2..length).unwrap_or_default().trim_ascii_end())
        }
        _ => failure,
    }
}
