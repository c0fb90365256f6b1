//! The resource usage of a container, as containerd's message for cgroup v1 or v2.
//!
//! containerd's own shim sets the same fields, with the same meaning. It uses the Go module
//! github.com/containerd/cgroups/v3 (3.1.3: `cgroup1/*.go`, and `Stat` in `cgroup2/manager.go`). As in this module
//! (`cgroups.Mode`), a hybrid host counts as v1. The fields `network` and `cgroup_stats` are optional in the Go module.
//! Neither shim sets them; other programs do.
//!
//! The kubelet queries each container about every ten seconds. For speed, values are parsed directly into the fields.

mod v1;
mod v2;

use alloc::vec::Vec;

use cgroup::stats::{self, Files};
use cgroup::{Error, Location};
use proto::message::Message;
use proto::messages::any::Any;
use proto::messages::metrics_v1::{RdmaEntry, RdmaStat};

/// Returns the resource usage of the container whose cgroup is at `location`.
///
/// # Errors
/// If the cgroup does not exist or was removed meanwhile, an error for which [`Error::is_gone`] is true. The shim
/// reports that error as `NotFound`, and containerd skips the task. Otherwise, if a system call fails.
pub fn metrics(location: &Location) -> Result<Any, Error> {
    match location.is_unified() {
        true => Ok(Any::pack(&v2::metrics(&Files::unified(location)?)?)),
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

/// Stores the values of a flat keyed file in the fields of the same names.
fn counters<M: Message>(text: &str) -> M {
    let mut message = M::default();
    for (key, value) in stats::keys(text) {
        if let Some(field) = message.counter(key) {
            *field = value;
        }
    }
    message
}

/// Reads rdma.current and rdma.max (cgroup-v2.rst, "RDMA"), whose lines are `DEVICE hca_handle=N hca_object=N`.
fn rdma(files: &Files) -> Result<RdmaStat, Error> {
    let devices = |name: &str| -> Result<Vec<RdmaEntry>, Error> {
        let text = files.text(name)?.unwrap_or_default();
        Ok(text.lines().filter_map(rdma_entry).collect())
    };
    Ok(RdmaStat { current: devices("rdma.current")?, limit: devices("rdma.max")? })
}

fn rdma_entry(line: &str) -> Option<RdmaEntry> {
    let mut words = line.split_whitespace();
    let mut entry = RdmaEntry { device: words.next()?.into(), ..RdmaEntry::default() };
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        let value = if value == "max" { Some(u32::MAX) } else { value.parse().ok() };
        match key {
            "hca_handle" => entry.hca_handles = value.unwrap_or(entry.hca_handles),
            "hca_object" => entry.hca_objects = value.unwrap_or(entry.hca_objects),
            _ => {}
        }
    }
    Some(entry)
}

#[cfg(test)]
mod tests;
