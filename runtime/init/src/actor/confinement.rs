//! AppArmor profiles and SELinux labels. Init writes them to its own attributes in the procfs that the parent verified,
//! never in the container's procfs (CVE-2019-16884, CVE-2019-19921).
//!
//! Profile and label apply from the next exec on, and so to startContainer hooks. Mounts get the SELinux label by the
//! option `context`. mqueue does not accept it, so the root directory of its file system is labelled. A root filesystem
//! that was copied from layers is labelled file by file.

use core::ffi::CStr;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, XattrFlags, fsetxattr, openat};
use rustix::io::Errno;

use crate::failure::{Failure, Op};

/// Makes AppArmor change init's profile at the next exec. Since Linux 5.8, AppArmor has a directory of its own in
/// /proc/self/attr. On older kernels, init writes to /proc/self/attr/exec; this file belongs to the only active
/// security module.
pub(crate) fn apply_profile(proc: BorrowedFd<'_>, order: &str) -> Result<(), Failure> {
    let order = order.as_bytes();
    let applied = match write(proc, c"self/attr/apparmor/exec", order) {
        Err(Errno::NOENT) => write(proc, c"self/attr/exec", order),
        result => result,
    };
    applied.op(match applied {
        Err(Errno::NOENT) => {
            "apparmor failed to apply profile (apparmor_parser --replace loads one): write attr/exec"
        }
        _ => "apparmor failed to apply profile: write attr/exec",
    })
}

/// Makes SELinux change init's label at the next exec.
pub(crate) fn label_process(proc: BorrowedFd<'_>, label: &str) -> Result<(), Failure> {
    let written = write(proc, c"self/attr/exec", label.as_bytes());
    written.op(match written {
        Err(Errno::INVAL) => {
            "can't set process label (the policy does not define it): write attr/exec"
        }
        _ => "can't set process label: write attr/exec",
    })
}

/// Sets the SELinux label of keys that init creates; an empty label restores the default.
pub(crate) fn label_keys(proc: BorrowedFd<'_>, label: &str) -> Result<(), Failure> {
    match write(proc, c"self/attr/keycreate", label.as_bytes()) {
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::INVAL) => Err(Errno::INVAL)
            .op("can't set key label (the policy does not define it): write attr/keycreate"),
        result => result.op("write attr/keycreate"),
    }
}

fn write(proc: BorrowedFd<'_>, attribute: &CStr, value: &[u8]) -> Result<(), Errno> {
    sys::fs::write_at(proc, attribute, value)
}

/// Labels the root of a mount whose file system has no context option.
pub(crate) fn label_mount(tree: impl AsFd, label: &CStr) -> Result<(), Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(tree, c".", flags, Mode::empty()).op("openat")?;
    fsetxattr(root, c"security.selinux", label.to_bytes(), XattrFlags::empty())
        .op("fsetxattr security.selinux")
}
