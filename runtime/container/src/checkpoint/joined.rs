//! The namespaces that restored processes join, and the descriptors that they inherit.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proto::messages::criu::{InheritedFd, JoinedNamespace};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, openat};
use spec::Spec;
use sys::{Context, Errno};

use super::external_name;
use super::refused::{Joined, all_joined};
use crate::Error;

/// Opens the joined namespaces that are external to criu; returns their names and files.
pub(super) fn external(spec: &Spec<'_>) -> Result<Vec<(String, OwnedFd)>, Error> {
    let mut external = Vec::new();
    for (kind, path, joined) in all_joined(spec) {
        if joined == Joined::ByPath {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = match openat(CWD, path, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                let text = format!("Requested {kind} namespace {path} does not exist");
                return Err(Error::Text(text));
            }
            file => file.context("open", path)?,
        };
        external.push((external_name(kind.proc_name()), file));
    }
    Ok(external)
}

/// Returns the namespaces that criu joins by path.
pub(super) fn by_path(spec: &Spec<'_>) -> Vec<JoinedNamespace> {
    let all = all_joined(spec);
    all.filter(|(_, _, joined)| *joined == Joined::ByPath)
        .map(|(kind, path, _)| JoinedNamespace {
            kind: kind.proc_name().to_string(),
            file: path.to_string(),
        })
        .collect()
}

/// Returns the descriptors that criu inherits: pipes of the standard streams, and joined namespaces.
pub(super) fn inherited(external: &[(String, OwnedFd)], streams: &[String]) -> Vec<InheritedFd> {
    // The descriptors of the namespaces follow the standard streams and the socket.
    let namespaces = (4..).zip(external);
    let namespaces = namespaces.map(|(fd, (key, _))| (key.clone(), fd));
    let pipes = (0..3).zip(streams).filter(|(_, stream)| stream.contains("pipe:"));
    let pipes = pipes.map(|(fd, stream)| (stream.clone(), fd));
    pipes.chain(namespaces).map(|(key, fd)| InheritedFd { key, fd: Some(fd) }).collect()
}
