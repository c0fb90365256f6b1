//! `create`: makes a container that waits for `start`.

use container::{CgroupDriver, CreateOptions};

use super::layers;
use crate::definition::NAME;
use crate::definition::options::{
    BUNDLE, CGROUP_MANAGER, CONFIG, CONSOLE_SOCKET, NO_NEW_KEYRING, NO_PIVOT, PID_FILE,
    PIDFD_SOCKET, PRESERVE_FDS, ROOTLESS, SYSTEMD_CGROUP,
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
    let options =
        CreateOptions { layered: layered.as_ref(), ..options(invocation, invocation.id()?)? };
    invocation.trace.seal(invocation.args)?;
    Ok(container::create(&invocation.store()?, &options)?)
}

/// What `create` and `run` have in common.
pub fn options<'a>(invocation: &Invocation<'a>, id: &'a str) -> Result<CreateOptions<'a>, Failure> {
    let values = invocation.values;
    if let Some(rootless) = invocation.globals.text(&ROOTLESS)
        && boolean(rootless).is_none()
        && !rootless.eq_ignore_ascii_case("auto")
    {
        return Err(Failure::new(format_args!(
            "invalid value {rootless:?} for --{}: must be true, false or auto",
            ROOTLESS.long
        )));
    }
    Ok(CreateOptions {
        id,
        bundle: values.text(&BUNDLE).unwrap_or_default(),
        config: values.text(&CONFIG),
        pid_file: values.text(&PID_FILE),
        console_socket: values.text(&CONSOLE_SOCKET),
        pidfd_socket: values.text(&PIDFD_SOCKET),
        no_pivot: values.flag(&NO_PIVOT),
        no_new_keyring: values.flag(&NO_NEW_KEYRING),
        preserve_fds: invocation.count(&PRESERVE_FDS)?,
        cgroup_driver: cgroup_driver(invocation.globals)?,
        env: invocation.args,
        techniques: invocation.techniques()?,
        layered: None,
    })
}

/// Who is to manage the cgroup.
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
