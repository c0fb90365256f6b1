//! Turns favordynmods on at each boot by a systemd unit, or, if that is impossible, prints
//! instructions for configuring the host by hand.

use super::switch::{consent, possible};
use super::{BOOT_PARAMETER, HIERARCHY, HIERARCHY_OPTIONS, State, Way};
use crate::boot::{self, UNITS, Unit};
use crate::facts::Facts;
use crate::layout::Layout;
use report::{Error, sayln};
use std::fs;

/// The unit's name.
const UNIT: &str = "dayfly-favordynmods.service";
/// The unit's text, in which `{mount}` stands for the command and `{condition}` for a path. mount(8) keeps the existing options.
const TEXT: &str = include_str!("favordynmods.service");

/// Returns whether the unit exists and is enabled.
pub(super) fn is_there(facts: &Facts) -> bool {
    let Unit { file, link } = unit(facts);
    file.exists() && link.symlink_metadata().is_ok()
}

/// Returns the unit. sysinit.target starts it before other programs move processes.
fn unit(facts: &Facts) -> Unit {
    Unit::new(&facts.path(UNITS), UNIT, "sysinit.target")
}

/// Turns favordynmods on at each boot. Without systemd or cgroup2, prints what to do by hand.
///
/// # Errors
/// The layout does not allow it; the change cannot be undone before the next boot and the user did not agree; files
/// cannot be written.
pub fn persist(facts: &Facts, yes: bool) -> Result<(), Error> {
    let layout = Layout::of(facts);
    let state = State::of(facts, &layout);
    let way = possible(&layout, &state)?;
    if let Some(how) = state.persistent {
        sayln!("favordynmods is on at boot already, by the {how}");
        return Ok(());
    }
    if !facts.has(UNITS) {
        let fstab = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate,memory_recursiveprot,favordynmods 0 0";
        let fstab = match way {
            Way::Remount("/sys/fs/cgroup") => format!("put this into /etc/fstab: {fstab}; or "),
            _ => String::new(),
        };
        return Err(refused!("{UNITS} is not there: no systemd")
            .advise(format!("{fstab}{}", by_boot(facts))));
    }
    consent(&state, yes)?;
    let unit = unit(facts);
    let (condition, command) = match way {
        Way::Remount(root) => {
            (format!("{root}/cgroup.controllers"), format!("mount -o remount,favordynmods {root}"))
        }
        Way::Hierarchy => (
            "!/sys/fs/cgroup/cgroup.controllers".to_owned(),
            format!("mount -t cgroup -o {HIERARCHY_OPTIONS},X-mount.mkdir cgroup {HIERARCHY}"),
        ),
    };
    unit.enable(&TEXT.replace("{condition}", &condition).replace("{mount}", &command))?;
    sayln!("favordynmods is on from the next boot on ({})", unit.file.display());
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
    let Unit { file, link } = unit(facts);
    let any = boot::remove([&link, &file])?;
    // rmdir(2) fails unless the directory is empty.
    let _ = link.parent().map(fs::remove_dir);
    match any {
        true => sayln!("favordynmods is no longer turned on at boot"),
        false => sayln!("no unit of dayfly's turns favordynmods on at boot"),
    }
    if State::of(facts, &Layout::of(facts)).boot == Some(true) {
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
