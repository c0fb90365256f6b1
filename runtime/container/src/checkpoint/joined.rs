//! What criu needs of the host besides mounts: joined namespaces, inherited descriptors, files, and its version.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proto::messages::criu::{InheritedFd, JoinedNamespace};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, openat};
use sys::{Context, Errno};

use super::dump::config_file;
use super::external_name;
use super::refused::{Joined, all_joined};
use super::restore::Restoration;
use super::session::Session;
use crate::Error;

impl Restoration<'_> {
    /// Fails if criu must open a file whose path is in `hidden`, a directory that criu cannot see.
    pub fn refuse_hidden(&self, hidden: &str) -> Result<(), Error> {
        let namespaces = self.joined_namespaces();
        let files = namespaces.iter().map(|namespace| namespace.file.as_str());
        let config = config_file(&self.context.spec);
        match files.chain([config.as_str()]).find(|path| plan::is_at_or_below(path, hidden)) {
            Some(path) => Err(Error::Text(format!(
                "criu needs {path}, but {hidden} is closed to the users of the container's user namespace"
            ))),
            None => Ok(()),
        }
    }

    /// Fails if criu is too old for an option that the command line contains.
    pub fn require(&self, session: &Session) -> Result<(), Error> {
        for (option, value) in [
            ("--lsm-profile", self.options.lsm_profile),
            ("--lsm-mount-context", self.options.lsm_mount_context),
        ] {
            if value.is_some() {
                session.require(31600, option)?;
            }
        }
        if self.options.tcp_close {
            session.require(31200, "--tcp-close")?;
        }
        for (kind, _, joined) in all_joined(&self.context.spec) {
            if let Joined::External(least) = joined {
                let kind = kind.proc_name();
                session.require(least, &format!("an external {kind} namespace"))?;
            }
        }
        Ok(())
    }

    /// Opens the joined namespaces that are external to criu; returns their names and files.
    pub fn external_namespaces(&self) -> Result<Vec<(String, OwnedFd)>, Error> {
        let mut external = Vec::new();
        for (kind, path, joined) in all_joined(&self.context.spec) {
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
    pub fn joined_namespaces(&self) -> Vec<JoinedNamespace> {
        let all = all_joined(&self.context.spec);
        all.filter(|(_, _, joined)| *joined == Joined::ByPath)
            .map(|(kind, path, _)| JoinedNamespace {
                kind: kind.proc_name().to_string(),
                file: path.to_string(),
            })
            .collect()
    }

    /// Returns the descriptors that criu inherits: pipes of the standard streams, and joined namespaces.
    pub fn inherited(&self, external: &[(String, OwnedFd)]) -> Vec<InheritedFd> {
        // The descriptors of the namespaces follow the standard streams and the socket.
        let namespaces = (4..).zip(external);
        let namespaces = namespaces.map(|(fd, (key, _))| (key.clone(), fd));
        let pipes = (0..3).zip(&self.streams).filter(|(_, stream)| stream.contains("pipe:"));
        let pipes = pipes.map(|(fd, stream)| (stream.clone(), fd));
        pipes.chain(namespaces).map(|(key, fd)| InheritedFd { key, fd: Some(fd) }).collect()
    }
}
