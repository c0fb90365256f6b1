//! Shows favordynmods, and turns it on and off.

use super::{HIERARCHY, HIERARCHY_OPTIONS, OPTION, State, Way};
use crate::facts::Facts;
use crate::layout::Layout;
use report::{Error, Format, Table, say, sayln};
use rustix::fs::CWD;
use rustix::mount::{
    FsPickFlags, MountFlags, UnmountFlags, fsconfig_reconfigure, fsconfig_set_flag,
    fsconfig_set_string, fspick, mount, unmount,
};
use std::fs::File;
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;

/// Prints the state and its meaning.
///
/// # Errors
/// JSON cannot be written.
pub fn status(facts: &Facts, format: Format) -> Result<(), Error> {
    let layout = Layout::of(facts);
    let state = State::of(facts, &layout);
    if format == Format::Json {
        let json = serde_json::json!({
            "favordynmods": on_or_off(&state),
            "cgroups": layout.mode().name(),
            "root": layout.unified,
            "kernel": facts.release,
            "state": state,
        });
        sayln!("{json:#}");
        return Ok(());
    }
    let kernel = match state.known {
        true => "has the option",
        false => "too old: the option came with 6.0",
    };
    let root = match (&layout.unified, state.mounted) {
        (Some(root), _) => match &layout.mount {
            Some(mount) if mount.has_super_option(OPTION) => format!("{root} is mounted with it"),
            Some(_) => format!("{root} is mounted without it"),
            None => format!("{root}, its options are not known"),
        },
        (None, Some(true)) => "none is mounted; a v1 hierarchy has the option".to_owned(),
        (None, _) => "none is mounted".to_owned(),
    };
    let boot = match state.boot {
        Some(true) => "cgroup_favordynmods is true",
        Some(false) => "cgroup_favordynmods is false",
        None => "not given",
    };
    let built = match state.built {
        Some(true) => "CONFIG_CGROUP_FAVOR_DYNMODS=y: on by default",
        Some(false) => "CONFIG_CGROUP_FAVOR_DYNMODS is not set: off by default",
        None => "configuration not to be had",
    };
    let at_boot = match state.persistent {
        Some(how) => format!("on, by the {how}"),
        None if state.built == Some(true) => "on, as the kernel is built".to_owned(),
        None => "off; \"dayfly host favordynmods persist\" changes that".to_owned(),
    };
    let way = match (state.one_way, state.is_on()) {
        (true, _) => "none before the next boot: since Linux 6.18, it cannot be undone",
        (false, true) => "\"dayfly host favordynmods off\", at any time",
        (false, false) => "once it is on: \"dayfly host favordynmods off\"",
    };
    let mut table = Table::without_headings().left(&[0, 1]);
    for (name, text) in [
        ("favordynmods", on_or_off(&state).to_owned()),
        ("kernel", format!("Linux {}, {kernel}", facts.release)),
        ("root of cgroup2", root),
        ("boot parameter", boot.to_owned()),
        ("kernel build", built.to_owned()),
        ("at boot", at_boot),
        ("way back", way.to_owned()),
    ] {
        table.row(vec![name.to_owned(), text]);
    }
    say!("{table}");
    Ok(())
}

fn on_or_off(state: &State) -> &'static str {
    if state.is_on() { "on" } else { "off" }
}

/// Turns the option on.
///
/// # Errors
/// The layout, kernel or host does not allow it; the change cannot be undone before the next boot and the user did not
/// agree; remounting fails.
pub fn on(facts: &Facts, yes: bool) -> Result<(), Error> {
    let layout = Layout::of(facts);
    let state = State::of(facts, &layout);
    let way = possible(&layout, &state)?;
    if state.is_on() {
        keep()?;
        sayln!("favordynmods is on already");
        return Ok(());
    }
    consent(&state, yes)?;
    switch(facts, &layout, way, true)?;
    sayln!("favordynmods is on until the next boot; \"dayfly host favordynmods persist\" keeps it");
    Ok(())
}

/// Turns the option off.
///
/// # Errors
/// The layout or host does not allow it; the kernel configuration or boot parameter turns the option on; remounting
/// fails.
pub fn off(facts: &Facts) -> Result<(), Error> {
    let layout = Layout::of(facts);
    let state = State::of(facts, &layout);
    let way = possible(&layout, &state)?;
    if !state.is_on() {
        sayln!("favordynmods is off already");
        return Ok(());
    }
    if state.by_default() {
        let reason = match state.boot {
            Some(true) => "the boot parameter cgroup_favordynmods has it on",
            _ => "the kernel is built with CONFIG_CGROUP_FAVOR_DYNMODS",
        };
        return Err(refused!("favordynmods can't be turned off before a boot: {reason}")
            .advise("boot with cgroup_favordynmods=false"));
    }
    switch(facts, &layout, way, false)?;
    if state.one_way {
        sayln!(
            "favordynmods is off for forks and exits; each process keeps a lock of its own until the \
             next boot (Linux 6.18)"
        );
    } else {
        sayln!("favordynmods is off");
    }
    Ok(())
}

/// Turns favordynmods on or off, without output.
///
/// # Errors
/// The layout, kernel or host does not allow it; remounting fails.
pub(super) fn turn(facts: &Facts, favour: bool) -> Result<(), Error> {
    let layout = Layout::of(facts);
    let way = possible(&layout, &State::of(facts, &layout))?;
    switch(facts, &layout, way, favour)
}

/// Returns the way to switch the option. Fails if there is none, or if the kernel does not have the option.
pub(super) fn possible<'a>(layout: &'a Layout, state: &State) -> Result<Way<'a>, Error> {
    if !state.known {
        return Err(refused!("favordynmods: this kernel does not have it")
            .advise("boot Linux 6.0 or newer"));
    }
    Way::of(layout).ok_or_else(|| {
        refused!("favordynmods: no cgroup hierarchy is mounted on /sys/fs/cgroup")
            .advise("mount cgroup2 there")
    })
}

/// Asks for confirmation if the change cannot be undone before the next boot.
///
/// # Errors
/// The user refused, or there is no terminal to ask on.
pub(super) fn consent(state: &State, yes: bool) -> Result<(), Error> {
    if yes || !state.one_way {
        return Ok(());
    }
    let what = "since Linux 6.18, favordynmods stays in effect until the next boot once it is on: \
                each process gets a lock of its own for moves between cgroups";
    if !std::io::stdin().is_terminal() {
        return Err(Error::refused(what).advise("use --yes to confirm"));
    }
    say!("{what}.\nTurn it on? [y/N] ");
    let mut answer = String::new();
    let asked =
        std::io::stdout().flush().and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    asked.map_err(|error| Error::system("read", "answer", error))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(refused!("nothing was changed")),
    }
}

/// Switches the option in this way, and checks that it is switched.
fn switch(facts: &Facts, layout: &Layout, way: Way<'_>, favour: bool) -> Result<(), Error> {
    if !facts.is_live() {
        return Err(
            refused!("favordynmods: only this host can be switched").advise("leave --sysroot out")
        );
    }
    match way {
        Way::Remount(root) => remount(layout, root, favour)?,
        Way::Hierarchy if favour => mount_hierarchy()?,
        Way::Hierarchy => {
            let failed = |errno| Error::system("unmount", HIERARCHY, errno);
            unmount(HIERARCHY, UnmountFlags::empty()).map_err(failed)?;
            let _ = std::fs::remove_dir(HIERARCHY);
        }
    }
    if State::of(facts, &Layout::of(facts)).is_on() == favour {
        return Ok(());
    }
    Err(refused!("the hierarchies of cgroups were mounted anew, but their options did not change")
        .advise("do it in the host's own cgroup namespace: in another one the kernel ignores it"))
}

/// Mounts a v1 hierarchy that has no controllers, but the option. No process has another group than its root there, and
/// runtimes do not look for it.
fn mount_hierarchy() -> Result<(), Error> {
    let place = Path::new(HIERARCHY);
    std::fs::create_dir_all(place).map_err(Error::of("make", place))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let options = std::ffi::CString::new(HIERARCHY_OPTIONS).unwrap_or_default();
    mount("cgroup", place, "cgroup", flags, Some(options.as_c_str()))
        .map_err(|errno| Error::system("mount", HIERARCHY, errno))
}

/// Remounts the cgroup2 root with or without the option. A remount resets all its options, so the existing ones must be
/// repeated.
fn remount(layout: &Layout, root: &str, favour: bool) -> Result<(), Error> {
    let options =
        layout.mount.as_ref().map(|mount| mount.super_options.as_str()).unwrap_or_default();
    let kept = options.split(',').filter(|option| !["rw", "ro", OPTION].contains(option));
    let wanted: Vec<&str> = kept.chain(favour.then_some(OPTION)).collect();
    let failed = |errno| Error::system("remount", root, errno);
    let fs = fspick(CWD, root, FsPickFlags::FSPICK_CLOEXEC).map_err(failed)?;
    for option in wanted {
        let set = match option.split_once('=') {
            Some((key, value)) => fsconfig_set_string(&fs, key, value),
            None => fsconfig_set_flag(&fs, option),
        };
        set.map_err(|errno| Error::system("remount", format!("{root} with {option}"), errno))?;
    }
    fsconfig_reconfigure(&fs).map_err(failed)
}

/// A file on which each command that needs the option holds a lock. It is not empty if the option was off before the
/// first of these commands.
pub(super) const WANTED: &str = "/run/dayfly-favordynmods";
/// The content of that file if the option was off before.
pub(super) const MARK: &[u8] = b"on for a while\n";

/// Keeps the option on when the running commands end.
///
/// # Errors
/// The file cannot be written.
pub(super) fn keep() -> Result<(), Error> {
    let path = Path::new(WANTED);
    match File::options().write(true).truncate(true).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::of("write", path)(error))
        }
        _ => Ok(()),
    }
}
