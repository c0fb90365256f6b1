//! cgroup v1, on which a cgroup has one directory in each hierarchy.

pub(crate) mod cpuset;
pub(crate) mod limits;

use alloc::string::ToString;

use crate::directory::Directory;
use crate::{Controller, Controllers, Error};

/// The open directory of a cgroup in one hierarchy.
#[derive(Debug)]
pub(crate) struct Legacy {
    /// The hierarchy's controllers.
    pub controllers: Controllers,
    /// The cgroup's directory in the hierarchy.
    pub directory: Directory,
}

/// Returns the directory, among `all`, in the hierarchy that has `controller`.
pub(crate) fn find(all: &[Legacy], controller: Controller) -> Option<&Directory> {
    let legacy = all.iter().find(|legacy| legacy.controllers.contains(controller))?;
    Some(&legacy.directory)
}

/// Returns the directory like [`find`], but a missing controller is an error. `file` is the name of a limit's file,
/// which the error contains.
pub(crate) fn require<'a>(
    all: &'a [Legacy],
    controller: Controller,
    file: &str,
) -> Result<&'a Directory, Error> {
    find(all, controller).ok_or_else(|| Error::NoController {
        controller: controller.name().to_string(),
        file: file.to_string(),
        directory: crate::MOUNT_ROOT.to_string(),
        unified: false,
    })
}
