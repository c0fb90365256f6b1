//! `plan`: prints the steps of a container's start, or the rules for the order of these steps.

use container::{CreateOptions, Warn};

use super::{is_json, print};
use crate::commands::create::cgroup_driver;
use crate::definition::options::{PLAN_CHECK, PLAN_FORMAT};
use crate::failure::Failure;
use crate::format;
use crate::invocation::Invocation;

/// The id of the container whose start is planned; this container is never created.
const ID: &str = "plan";

/// Returns the exit status: 1 if a rule is broken.
pub fn command(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    let options = CreateOptions {
        id: ID,
        bundle: invocation.arguments.first().copied().unwrap_or_default(),
        config: None,
        pid_file: None,
        console_socket: None,
        console: None,
        claim_socket: None,
        pidfd_socket: None,
        no_pivot: false,
        no_new_keyring: false,
        preserve_fds: 0,
        cgroup_driver: cgroup_driver(invocation.globals)?,
        rootless: None,
        env: invocation.args,
        start_cpus: None,
        fast_paths: invocation.fast_paths()?,
        pin: None,
        pool: None,
        layered: None,
        rootfs: &[],
        rootfs_mode: None,
        template: None,
        warn: Warn::default(),
    };
    let plan = container::compile(&options)?;
    let json = is_json(invocation.values.text(&PLAN_FORMAT), "text")?;
    if invocation.values.flag(&PLAN_CHECK) {
        let rules = format::rules::Verdicts::of(&plan);
        print(&if json { rules.json()? } else { rules.text() })?;
        return Ok(i32::from(rules.has_broken()));
    }
    print(&if json { format::plan::json(&plan)? } else { format::plan::text(&plan) })?;
    Ok(0)
}
