//! Creation of detached file systems: by init or, if a file system uses resources of the host, by the parent.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount,
    fsopen,
};
use sys::mount::{MountAttr, fsmount_attr, mount_setattr};

use crate::failure::{Failure, Op};
use crate::step::{MountFs, Parameter};

/// Creates the file system with its attributes and propagation; its root gets the permissions `mode`, if given.
///
/// # Errors
/// The failure names the failed call, and includes the kernel's message.
pub fn make(step: &MountFs<'_>, mode: Option<u32>) -> Result<OwnedFd, Failure> {
    let context = fsopen(step.kind, FsOpenFlags::FSOPEN_CLOEXEC).op("fsopen")?;
    let configured = configure(context.as_fd(), step, mode);
    let result = configured.and_then(|()| {
        fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, fsmount_attr(step.attr.set))
            .op("fsmount")
    });
    let tree = result.map_err(|failure| with_kernel_log(failure, context.as_fd()))?;
    if step.attr.propagation != 0 {
        let attr = MountAttr { propagation: step.attr.propagation, ..MountAttr::default() };
        mount_setattr(tree.as_fd(), false, &attr).op("mount_setattr")?;
    }
    Ok(tree)
}

fn configure(
    context: BorrowedFd<'_>,
    step: &MountFs<'_>,
    mode: Option<u32>,
) -> Result<(), Failure> {
    fsconfig_set_string(context, c"source", step.source).op("fsconfig source")?;
    set(context, step.parameters)?;
    if let Some(mode) = mode {
        // The mode is set as an option, so that the mount table shows it.
        fsconfig_set_string(context, c"mode", octal(mode).as_slice()).op("fsconfig mode")?;
    }
    fsconfig_create(context).op("fsconfig create")
}

/// Formats permissions as four digits.
fn octal(mode: u32) -> [u8; 4] {
    [9, 6, 3, 0].map(|shift| b'0' + (mode >> shift & 7) as u8)
}

/// Sets options of a file system.
pub(crate) fn set(context: BorrowedFd<'_>, parameters: &[Parameter<'_>]) -> Result<(), Failure> {
    for &(key, value) in parameters {
        match value {
            Some(value) => fsconfig_set_string(context, key, value),
            None => fsconfig_set_flag(context, key),
        }
        .map_err(|errno| Failure::new("fsconfig", errno).with(key.to_bytes()))?;
    }
    Ok(())
}

/// Adds the kernel's error message, which is read from the context's descriptor, for example "e tmpfs: Bad value for
/// 'size'".
pub(crate) fn with_kernel_log(failure: Failure, context: BorrowedFd<'_>) -> Failure {
    let mut text = [0u8; 160];
    match rustix::io::read(context, &mut text) {
        Ok(length) if length > 2 => {
            failure.with(text.get(2..length).unwrap_or_default().trim_ascii_end())
        }
        _ => failure,
    }
}
