//! Turns favordynmods on at each boot by a systemd unit, or, if that is impossible, prints
//! instructions for configuring the host by hand.

use super::switch::consent;
use super::{BOOT_PARAMETER, State, refusal};
use crate::facts::Facts;
use crate::layout::Layout;
use report::{Error, sayln};
use std::fs;
use std::path::{Path, PathBuf};

/// The unit's name.
const UNIT: &str = "dayfly-favordynmods.service";
/// The directory for the administrator's own units.
const UNITS: &str = "/etc/systemd/system";
/// The directory of links to the units that sysinit.target starts. It starts them before other programs move processes.
const WANTED_BY: &str = "sysinit.target.wants";

/// The unit's text. mount(8) keeps the existing options.
const TEXT: &str = "\
# Written by \"dayfly host favordynmods persist\", removed by \"unpersist\".
[Unit]
Description=Have cgroups favour changes of their members (favordynmods)
Documentation=man:dayfly(8)
DefaultDependencies=no
Conflicts=shutdown.target
Before=sysinit.target shutdown.target
ConditionPathExists=/sys/fs/cgroup/cgroup.controllers

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=mount -o remount,favordynmods /sys/fs/cgroup

[Install]
WantedBy=sysinit.target
";

/// Returns whether the unit exists and is enabled.
pub(super) fn is_there(facts: &Facts) -> bool {
    let (unit, link) = files(facts);
    unit.exists() && link.symlink_metadata().is_ok()
}

/// Returns the paths of the unit and of the link that enables it.
fn files(facts: &Facts) -> (PathBuf, PathBuf) {
    let units = facts.path(UNITS);
    (units.join(UNIT), units.join(WANTED_BY).join(UNIT))
}

/// Turns favordynmods on at each boot. Without systemd or cgroup2, prints what to do by hand.
///
/// # Errors
/// The layout does not allow it; the change cannot be undone before the next boot and the user did not agree; files
/// cannot be written.
pub fn persist(facts: &Facts, yes: bool) -> Result<(), Error> {
    let layout = Layout::of(facts);
    let state = State::of(facts, &layout);
    if let Some(reason) = refusal(layout.mode()) {
        return Err(Error::refused(format!("favordynmods: {reason}")).advise(by_boot(facts)));
    }
    if !state.known {
        return Err(Error::refused("favordynmods: this kernel does not have it")
            .advise("boot Linux 6.0 or newer"));
    }
    if let Some(how) = state.persistent {
        sayln!("favordynmods is on at boot already, by the {how}");
        return Ok(());
    }
    if !facts.has(UNITS) {
        let fstab = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate,memory_recursiveprot,favordynmods 0 0";
        return Err(Error::refused(format!("{UNITS} is not there: no systemd"))
            .advise(format!("put this into /etc/fstab: {fstab}; or {}", by_boot(facts))));
    }
    consent(&state, yes)?;
    let (unit, link) = files(facts);
    let directory = link.parent().unwrap_or(Path::new(UNITS));
    fs::create_dir_all(directory).map_err(Error::of("make", directory))?;
    fs::write(&unit, TEXT).map_err(Error::of("write", &unit))?;
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(format!("../{UNIT}"), &link).map_err(Error::of("link", &link))?;
    sayln!("favordynmods is on from the next boot on ({})", unit.display());
    if !state.is_on() {
        sayln!("\"dayfly host favordynmods on\" turns it on now");
    }
    Ok(())
}

/// Undoes [`persist`]. The option's present state does not change.
///
/// # Errors
/// Files cannot be removed.
pub fn unpersist(facts: &Facts) -> Result<(), Error> {
    let (unit, link) = files(facts);
    let mut any = false;
    for file in [&link, &unit] {
        match fs::remove_file(file) {
            Ok(()) => any = true,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::of("remove", file)(error)),
        }
    }
    // rmdir(2) fails unless the directory is empty.
    if let Some(directory) = link.parent() {
        let _ = fs::remove_dir(directory);
    }
    match any {
        true => sayln!("favordynmods is no longer turned on at boot"),
        false => sayln!("no unit of dayfly's turns favordynmods on at boot"),
    }
    if facts.boot_parameter("cgroup_favordynmods").is_some() {
        sayln!("the boot parameter cgroup_favordynmods is set, and must be removed separately");
    }
    Ok(())
}

/// Returns instructions for the installed boot loader.
fn by_boot(facts: &Facts) -> String {
    let old = if facts.since(6, 7) { "" } else { " (Linux 6.7 and newer)" };
    match facts.has("/etc/default/grub") {
        true => format!(
            "add {BOOT_PARAMETER} to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub, reboot{old}"
        ),
        false => format!("boot with {BOOT_PARAMETER}{old}"),
    }
}
