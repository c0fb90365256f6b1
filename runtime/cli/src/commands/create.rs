//! `create`: creates a container that waits for `start`.

use container::{CgroupDriver, CreateOptions, Error, RootMount, TemplateUse};

use super::layers::{self, Places};
use super::*;
use crate::values::{Values, boolean};

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    create(invocation).map_err(|failure| failure.of(format_args!("{NAME} create")))
}

fn create(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let create = |options: CreateOptions<'_>| {
        let id = options.id;
        let has_bundle =
            || [&BUNDLE, &CONFIG].iter().any(|option| invocation.values.is_set(option));
        container::create(&invocation.store()?, &options).map_err(|error| match &error {
            Error::NoConfiguration(_) if !has_bundle() => {
                failure!("{error}; did you mean {NAME} run -d --image {id}?")
            }
            _ => error.into(),
        })?;
        Ok(0)
    };
    with_rootfs(invocation, invocation.id()?, true, &create).map(drop)
}

/// Calls `start` with the options for a start, those of the root filesystem included. If `seals`, the command is sealed
/// before: it may execute itself again, and then reads its input again.
pub fn with_rootfs(
    invocation: &Invocation<'_>,
    id: &str,
    seals: bool,
    start: &dyn Fn(CreateOptions<'_>) -> Result<i32, Failure>,
) -> Result<i32, Failure> {
    let places = Places::of(invocation)?;
    let layered = places.as_ref().map(|places| places.layered(invocation)).transpose()?;
    let options = options(invocation, id)?;
    if seals {
        invocation.trace.seal(invocation.args, options.fast_paths)?;
    }
    let values = invocation.values;
    let mounts = values.text(&ROOTFS_MOUNTS);
    let text = match mounts {
        Some(file) => sys::fs::read_at(rustix::fs::CWD, file).context("read", file)?,
        None => Vec::from(b"[]"),
    };
    start(CreateOptions {
        layered: layered.as_ref(),
        rootfs: &RootMount::list(&text)?,
        rootfs_mode: if mounts.is_some() { layers::mode(values)? } else { None },
        ..options
    })
}

/// Returns the options for a start, without those of the root filesystem.
pub fn options<'a>(invocation: &Invocation<'a>, id: &'a str) -> Result<CreateOptions<'a>, Failure> {
    let values = invocation.values;
    Ok(CreateOptions {
        id,
        bundle: values.text(&BUNDLE).unwrap_or_default(),
        config: values.text(&CONFIG),
        pid_file: values.text(&PID_FILE),
        console_socket: values.text(&CONSOLE_SOCKET),
        console: None,
        claim_socket: None,
        pidfd_socket: values.text(&PIDFD_SOCKET),
        no_pivot: values.flag(&NO_PIVOT),
        no_new_keyring: values.flag(&NO_NEW_KEYRING),
        preserve_fds: invocation.count(&PRESERVE_FDS)?,
        cgroup_driver: cgroup_driver(invocation.globals)?,
        rootless: rootless(invocation.globals)?,
        env: invocation.args,
        criu_env: invocation.args,
        start_cpus: values.text(&START_CPUS),
        fast_paths: invocation.fast_paths()?,
        pin: values.text(&PIN),
        pool: values.text(&POOL).or_else(|| values.text(&TIER)),
        layered: None,
        rootfs: &[],
        rootfs_mode: None,
        template: values.text(&TEMPLATE).map(|name| TemplateUse::From { name, args: &[] }),
        warn: invocation.warn,
    })
}

/// Parses `--rootless`. Returns `None` for `auto` or if the option is missing; the caller's privileges then decide.
fn rootless(globals: &Values<'_>) -> Result<Option<bool>, Failure> {
    let Some(text) = globals.text(&ROOTLESS) else { return Ok(None) };
    match boolean(text) {
        None if !text.eq_ignore_ascii_case("auto") => Err(failure!(
            "invalid value {text:?} for --{}: must be true, false or auto",
            ROOTLESS.long
        )),
        answer => Ok(answer),
    }
}

/// Returns the cgroup driver that the command line selects.
pub fn cgroup_driver(globals: &Values<'_>) -> Result<CgroupDriver, Failure> {
    if globals.flag(&SYSTEMD_CGROUP) {
        return Ok(CgroupDriver::Systemd);
    }
    match globals.text(&CGROUP_MANAGER) {
        None | Some("cgroupfs") => Ok(CgroupDriver::Cgroupfs),
        Some("disabled") => Ok(CgroupDriver::Disabled),
        Some("systemd") => Ok(CgroupDriver::Systemd),
        Some(other) => {
            Err(failure!("unknown cgroup manager {other:?}: must be cgroupfs, disabled or systemd"))
        }
    }
}
