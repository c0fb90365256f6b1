//! What a container uses, as containerd wants to know it: the message of cgroup v1 or that of v2.
//!
//! Which fields are filled, and what they mean, is as in containerd's own shim, which reads by
//! github.com/containerd/cgroups/v3 (3.1.3: `cgroup1/*.go`, and `Stat` of `cgroup2/manager.go`). A hybrid host counts
//! as v1 there (`cgroups.Mode`), and here. Of what is optional there, nothing is filled here either: `network`
//! and `cgroup_stats` (other programs fill them).
//!
//! Kubelet asks for each container every ten seconds or so: files are read into one buffer, and what they say goes
//! straight into the fields.

mod v1;
mod v2;

use cgroup::stats::Files;
use cgroup::{Error, Location};
use proto::messages::any::Any;

/// What the container whose cgroup is at `location` has used.
///
/// # Errors
/// One for which [`Error::is_gone`] holds if there is no such cgroup, or it was removed meanwhile: containerd passes
/// over a task for which it is told so (`NotFound`). Failing system calls.
pub fn metrics(location: &Location) -> Result<Any, Error> {
    match location.is_unified() {
        true => Ok(Any::pack(&v2::metrics(&mut Files::unified(location)?)?)),
        false => Ok(Any::pack(&v1::metrics(location)?)),
    }
}

/// A file that holds one number; 0 if it is not there, or holds something else: one odd file must not keep all
/// others from being told.
fn number(files: &Files, name: &str) -> Result<u64, Error> {
    match files.number(name) {
        Err(Error::Unreadable { .. }) => Ok(0),
        result => result.map(Option::unwrap_or_default),
    }
}

/// The devices of rdma.current and rdma.max, lines of `mlx4_0 hca_handle=2 hca_object=max` (cgroup-v1/rdma.rst): each
/// with handles and objects, of which [`u32::MAX`] is no limit.
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
