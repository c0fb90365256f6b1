//! The resource usage of a container, as containerd's message for cgroup v1 or v2.
//!
//! containerd's own shim sets the same fields, with the same meaning. It uses the Go module
//! github.com/containerd/cgroups/v3 (3.1.3: `cgroup1/*.go`, and `Stat` in `cgroup2/manager.go`). As in this module
//! (`cgroups.Mode`), a hybrid host counts as v1. The fields `network` and `cgroup_stats` are optional in the Go module.
//! Neither shim sets them; other programs do.
//!
//! The kubelet queries each container about every ten seconds. For speed, files are read into one buffer, and their
//! values are parsed directly into the fields.

mod v1;
mod v2;

use cgroup::stats::Files;
use cgroup::{Error, Location};
use proto::messages::any::Any;

/// Returns the resource usage of the container whose cgroup is at `location`.
///
/// # Errors
/// If the cgroup does not exist or was removed meanwhile, an error for which [`Error::is_gone`] is true. The shim
/// reports that error as `NotFound`, and containerd skips the task. Otherwise, if a system call fails.
pub fn metrics(location: &Location) -> Result<Any, Error> {
    match location.is_unified() {
        true => Ok(Any::pack(&v2::metrics(&mut Files::unified(location)?)?)),
        false => Ok(Any::pack(&v1::metrics(location)?)),
    }
}

/// Reads a file that contains one number. Returns 0 if the file is missing or contains something else, so that one
/// unexpected file does not prevent reading the others.
fn number(files: &Files, name: &str) -> Result<u64, Error> {
    match files.number(name) {
        Err(Error::Unreadable { .. }) => Ok(0),
        result => result.map(Option::unwrap_or_default),
    }
}

/// Iterates over the lines of rdma.current or rdma.max, such as `mlx4_0 hca_handle=2 hca_object=max`
/// (cgroup-v1/rdma.rst). Returns the device, the number of handles and the number of objects; [`u32::MAX`] means no
/// limit.
fn rdma(text: &str) -> impl Iterator<Item = (&str, u32, u32)> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let device = words.next()?;
        let (mut handles, mut objects) = (0, 0);
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            let value = if value == "max" { Some(u32::MAX) } else { value.parse().ok() };
            match key {
                "hca_handle" => handles = value.unwrap_or(handles),
                "hca_object" => objects = value.unwrap_or(objects),
                _ => {}
            }
        }
        Some((device, handles, objects))
    })
}

#[cfg(test)]
mod tests;
