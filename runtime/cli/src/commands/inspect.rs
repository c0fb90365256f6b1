//! `inspect`: what is known about containers, or about an image of the store if no container has the name.

use alloc::boxed::Box;

use container::{Container, EXIT_CODE, MountPoint, State, Status, UNKNOWN};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::*;

/// On cgroup v1, a memory limit of about this many bytes is none; on v2 there is a larger number.
const UNLIMITED: u64 = 1 << 62;

/// A container. The first members are those of `state`.
#[derive(Serialize)]
struct Inspected {
    #[serde(flatten)]
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started: Option<String>,
    /// The end of the program, if a command waited for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished: Option<String>,
    /// The exit code of a stopped container, or a word if it is unknown.
    #[serde(rename = "exitCode", skip_serializing_if = "Option::is_none")]
    exit_code: Option<Value>,
    process: Box<RawValue>,
    limits: Limits,
    mounts: Vec<MountPoint>,
}

/// The limits in the container's cgroup. A limit that is not set is left out.
#[derive(Default, Serialize)]
struct Limits {
    /// In bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<u64>,
    /// In CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpus: Option<f64>,
    /// The number of processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pids: Option<u64>,
}

pub fn command(invocation: &Invocation<'_>) -> Result<i32, Failure> {
    let store = invocation.store()?;
    let mut all = Vec::new();
    for id in invocation.arguments {
        match store.by_beginning(id) {
            // Docker and Podman take the names of images, too.
            Err(error)
                if error.is_not_found()
                    && !invocation.values.is_set(&INSPECT_FORMAT)
                    && is_image(invocation, id) =>
            {
                let arguments = [&["inspect"], invocation.arguments].concat();
                return tool::command(
                    "dayfly-image",
                    "image",
                    &Invocation { arguments: &arguments, ..*invocation },
                );
            }
            container => all.push(inspect(&container?)?),
        }
    }
    let Some(template) = invocation.values.text(&INSPECT_FORMAT) else {
        print(&(format::indented_json(&all)? + "\n"))?;
        return Ok(0);
    };
    for container in &all {
        let container = serde_json::from_str(&serde_json::to_string(container)?)?;
        print(&format::template::fill(template, &container)?)?;
    }
    Ok(0)
}

fn is_image(invocation: &Invocation<'_>, name: &str) -> bool {
    let store = layers::store(invocation.values, invocation.args);
    store.is_ok_and(|store| rootfs::image::look_up(&store, name).is_ok())
}

fn inspect(container: &Container) -> Result<Inspected, Failure> {
    let state = container.state()?;
    Ok(Inspected {
        image: format::brief::image(&state).cloned(),
        started: container.started()?,
        finished: container.finished(),
        exit_code: Some(exit_code(&state)).filter(|_| state.status == Status::Stopped),
        process: container.process()?,
        limits: limits(container).unwrap_or_default(),
        mounts: container.mounts()?,
        state,
    })
}

fn exit_code(state: &State) -> Value {
    let code = state.annotations.get(EXIT_CODE).and_then(|code| code.parse::<i32>().ok());
    code.map_or_else(|| UNKNOWN.into(), Value::from)
}

/// Returns the limits, or `None` if the container has no cgroup, or none any more.
fn limits(container: &Container) -> Option<Limits> {
    let cgroup = container.cgroup().ok()?;
    let stats = cgroup.stats().ok()?;
    Some(Limits {
        memory: Some(stats.memory.usage.limit).filter(|limit| (1..UNLIMITED).contains(limit)),
        cpus: cgroup.cpus().ok()?,
        pids: Some(stats.pids.limit).filter(|limit| *limit > 0),
    })
}
