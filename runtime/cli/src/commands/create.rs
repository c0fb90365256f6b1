//! `create`: creates a container that waits for `start`.

use container::{CgroupDriver, CreateOptions, TemplateUse, Warn};

use super::layers;
use crate::NAME;
use crate::definition::options::{
    BUNDLE, CGROUP_MANAGER, CONFIG, CONSOLE_SOCKET, NO_NEW_KEYRING, NO_PIVOT, PID_FILE,
    PIDFD_SOCKET, PIN, POOL, PRESERVE_FDS, ROOTLESS, START_CPUS, SYSTEMD_CGROUP, TEMPLATE, TIER,
};
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::values::{Values, boolean};

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    create(invocation).map_err(|failure| failure.of(format_args!("{NAME} create")))
}

fn create(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let places = layers::Places::of(invocation)?;
    let layered = places.as_ref().map(|places| places.layered(invocation)).transpose()?;
    let mounts = layers::Mounts::read(invocation)?;
    let options = CreateOptions {
        layered: layered.as_ref(),
        rootfs: &mounts.list()?,
        rootfs_mode: mounts.mode(),
        ..options(invocation, invocation.id()?)?
    };
    invocation.trace.seal(invocation.args, options.fast_paths)?;
    container::create(&invocation.store()?, &options)?;
    Ok(())
}

/// Returns the options shared by `create` and `run`.
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
        start_cpus: values.text(&START_CPUS),
        fast_paths: invocation.fast_paths()?,
        pin: values.text(&PIN),
        pool: values.text(&POOL).or_else(|| values.text(&TIER)),
        layered: None,
        rootfs: &[],
        rootfs_mode: None,
        template: values.text(&TEMPLATE).map(|name| TemplateUse::From { name, args: &[] }),
        warn: Warn { record: invocation.warn, print: invocation.tell },
    })
}

/// Parses `--rootless`. Returns `None` for `auto` or if the option is missing; the caller's privileges then decide.
fn rootless(globals: &Values<'_>) -> Result<Option<bool>, Failure> {
    let Some(text) = globals.text(&ROOTLESS) else { return Ok(None) };
    match boolean(text) {
        None if !text.eq_ignore_ascii_case("auto") => Err(Failure::new(format_args!(
            "invalid value {text:?} for --{}: must be true, false or auto",
            ROOTLESS.long
        ))),
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
        Some(other) => Err(Failure::new(format_args!(
            "unknown cgroup manager {other:?}: must be cgroupfs, disabled or systemd"
        ))),
    }
}
