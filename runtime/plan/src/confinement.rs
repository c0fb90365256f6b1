//! AppArmor profiles and SELinux labels.

use alloc::format;
use core::ffi::CStr;

use spec::{Linux, Process};

use crate::builder::Builder;
use crate::path::c_str;
use crate::step::{InitStep, ParentStep, SecurityModule};
use crate::{Error, keep};

/// Returns the AppArmor profile to change to, if any: `unconfined` needs no change, since the caller itself is
/// unconfined.
fn profile<'a>(process: &'a Process<'_>) -> Option<&'a str> {
    process.apparmor_profile.as_deref().filter(|profile| *profile != "unconfined")
}

/// Adds the steps that check, before anything is created, whether the kernel supports the requested
/// security modules.
pub fn require(builder: &mut Builder, process: &Process<'_>, linux: Option<&Linux<'_>>) {
    if profile(process).is_some() {
        builder.parent(ParentStep::RequireModule(SecurityModule::AppArmor));
    }
    let mount_label = linux.is_some_and(|linux| linux.mount_label.is_some());
    if process.selinux_label.is_some() || mount_label {
        builder.parent(ParentStep::RequireModule(SecurityModule::SeLinux));
    }
}

/// Adds the session keyring, which gets the SELinux label of the process.
pub fn compile_keyring(
    builder: &mut Builder,
    id: &str,
    process: &Process<'_>,
) -> Result<(), Error> {
    let label = process.selinux_label.as_deref();
    if let Some(label) = label {
        builder.init(InitStep::LabelKeys(keep::text(label)));
    }
    builder.init(InitStep::JoinKeyring { name: c_str(format!("_ses.{id}"))? });
    if label.is_some() {
        builder.init(InitStep::LabelKeys(""));
    }
    Ok(())
}

/// Adds the profile and label that the process gets at exec.
pub fn compile(builder: &mut Builder, process: &Process<'_>) {
    if let Some(profile) = profile(process) {
        builder.init(InitStep::ApplyProfile(keep::text(format!("exec {profile}"))));
    }
    if let Some(label) = &process.selinux_label {
        builder.init(InitStep::LabelProcess(keep::text(label.as_str())));
    }
}

/// Returns the SELinux label for the files of a mount, if a mount option (`context`) sets it. procfs, sysfs and cgroup
/// file systems do not get this label. A mqueue file system is labelled after the mount.
pub fn mount_context(kind: &str, linux: &Linux<'_>) -> Result<Option<&'static CStr>, Error> {
    let label = linux.mount_label.as_deref();
    match kind {
        "proc" | "sysfs" | "mqueue" | "cgroup" | "cgroup2" => Ok(None),
        _ => label.map(c_str).transpose(),
    }
}
