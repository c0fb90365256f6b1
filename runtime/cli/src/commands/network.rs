//! `--network`: the network of a container that runs an image.

use container::Network;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use sys::clone::CloneFlags;

use super::*;

/// The requested network. The descriptor of a namespace is kept open, so that its path stays valid.
#[derive(Debug)]
pub enum Asked {
    None,
    Host,
    Namespace { _open: OwnedFd, path: String },
}

impl Asked {
    /// Reads the option from the command line.
    pub fn of(invocation: &Invocation<'_>) -> Result<Self, Failure> {
        let values = invocation.values;
        let text = values.text(&NETWORK).or_else(|| values.text(&NET));
        let Some(text) = text else { return Ok(Self::None) };
        let of_option = |failure: Failure| failure.of(format_args!("--network {text}"));
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            None if text == "host" => Ok(Self::Host),
            Some(("container", id)) => of_container(invocation, id).map_err(of_option),
            Some(("ns", path)) => of_path(path).map_err(of_option),
            _ => Err(failure!(
                "--network {text}: must be none, host, container:ID or ns:PATH; dayfly makes no networks"
            )),
        }
    }

    pub fn network(&self) -> Network<'_> {
        match self {
            Self::None => Network::None,
            Self::Host => Network::Host,
            Self::Namespace { path, .. } => Network::Join(path),
        }
    }
}

fn of_container(invocation: &Invocation<'_>, id: &str) -> Result<Asked, Failure> {
    Ok(opened(invocation.store()?.by_beginning(id)?.network()?))
}

fn of_path(path: &str) -> Result<Asked, Failure> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let namespace = openat(CWD, path, flags, Mode::empty()).context("open", path)?;
    match sys::nsfs::kind(namespace.as_fd()) {
        Ok(CloneFlags::NEWNET) => Ok(opened(namespace)),
        _ => Err(failure!("{path} is not a network namespace")),
    }
}

fn opened(namespace: OwnedFd) -> Asked {
    let path = format!("/proc/self/fd/{}", namespace.as_raw_fd());
    Asked::Namespace { _open: namespace, path }
}
