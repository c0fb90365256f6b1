//! `plan`: prints the steps of a container's start.

use container::{CreateOptions, Warn};

use super::{is_json, print};
use crate::commands::create::cgroup_driver;
use crate::definition::options::PLAN_FORMAT;
use crate::failure::Failure;
use crate::format;
use crate::invocation::Invocation;

/// The id of a container that is never made.
const ID: &str = "plan";

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let options = CreateOptions {
        id: ID,
        bundle: invocation.arguments.first().copied().unwrap_or_default(),
        config: None,
        pid_file: None,
        console_socket: None,
        pidfd_socket: None,
        no_pivot: false,
        no_new_keyring: false,
        preserve_fds: 0,
        cgroup_driver: cgroup_driver(invocation.globals)?,
        rootless: None,
        env: invocation.args,
        start_cpus: None,
        techniques: invocation.techniques()?,
        pin: None,
        tier: None,
        layered: None,
        warn: Warn::default(),
    };
    let plan = container::compile(&options)?;
    match is_json(invocation.values.text(&PLAN_FORMAT), "text")? {
        true => print(&format::plan::json(&plan)?),
        false => print(&format::plan::text(&plan)),
    }
}
