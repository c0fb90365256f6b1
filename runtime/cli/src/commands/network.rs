//! `--network`: the network of a container that runs an image.

use core::net::Ipv4Addr;
use core::num::NonZeroU16;

use container::Network;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Access, CWD, Mode, OFlags, access, openat};
use rustix::process::geteuid;
use sys::clone::CloneFlags;

use super::*;

/// The requested network. The descriptor of a namespace is kept open, so that its path stays valid.
#[derive(Debug)]
pub enum Asked {
    None,
    Host,
    Namespace {
        _open: OwnedFd,
        path: String,
    },
    /// A bridge, which this program makes by CNI plugins of this directory; the ports are JSON.
    Bridge {
        program: String,
        plugins: String,
        ports: String,
    },
}

/// The directories of CNI plugins: the usual one, Debian's, Fedora's.
const PLUGINS: &str = "/opt/cni/bin:/usr/lib/cni:/usr/libexec/cni";

impl Asked {
    /// Reads the option from the command line.
    pub fn of(invocation: &Invocation<'_>) -> Result<Self, Failure> {
        let values = invocation.values;
        let text = values.text(&NETWORK).or_else(|| values.text(&NET));
        let publishes = values.is_set(&PUBLISH);
        let text = match text {
            None if publishes => "bridge",
            None => return Ok(Self::None),
            Some(text) => text,
        };
        if publishes && text != "bridge" {
            return Err(Failure::new("--publish needs --network bridge, which it implies"));
        }
        let of_option = |failure: Failure| failure.of(format_args!("--network {text}"));
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            None if text == "host" => Ok(Self::Host),
            None if text == "bridge" => bridge(invocation),
            Some(("container", id)) => of_container(invocation, id).map_err(of_option),
            Some(("ns", path)) => of_path(path).map_err(of_option),
            _ => Err(failure!(
                "--network {text}: must be none, host, bridge, container:ID or ns:PATH; dayfly makes no others"
            )),
        }
    }

    pub fn network(&self) -> Network<'_> {
        match self {
            Self::None => Network::None,
            Self::Host => Network::Host,
            Self::Namespace { path, .. } => Network::Join(path),
            Self::Bridge { program, plugins, ports } => Network::Bridge([program, plugins, ports]),
        }
    }
}

fn bridge(invocation: &Invocation<'_>) -> Result<Asked, Failure> {
    let ports: Vec<String> =
        invocation.values.texts(&PUBLISH).map(port).collect::<Result<_, _>>()?;
    if !geteuid().is_root() || sys::user_namespace::is_nested() {
        return Err(Failure::new(
            "--network bridge needs root; \"podman --runtime dayfly run -p\" publishes ports without root",
        ));
    }
    let path = invocation.env("CNI_PATH").unwrap_or(PLUGINS);
    let has_bridge = |at: &&str| access(format!("{at}/bridge").as_str(), Access::EXEC_OK).is_ok();
    let plugins = path.split(':').find(has_bridge).ok_or_else(|| {
        failure!("--network bridge: no CNI plugin bridge in {path} (Debian's package containernetworking-plugins); --network host shares the host's network")
    })?;
    Ok(Asked::Bridge {
        program: tool::path("dayfly-image", invocation)?,
        plugins: plugins.into(),
        ports: format!("[{}]", ports.join(",")),
    })
}

/// Returns a published port, `[ADDRESS:]PORT:PORT[/PROTOCOL]`, as CNI has it.
fn port(text: &str) -> Result<String, Failure> {
    let parse = || {
        let (ports, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        let (host, inside) = ports.rsplit_once(':')?;
        let (address, host) = host.rsplit_once(':').unwrap_or(("", host));
        let is_address = address.is_empty() || address.parse::<Ipv4Addr>().is_ok();
        let number = |text: &str| text.parse::<NonZeroU16>().ok();
        let (host, inside) = (number(host)?, number(inside)?);
        (is_address && ["tcp", "udp"].contains(&protocol)).then(|| {
            format!(
                r#"{{"hostPort":{host},"containerPort":{inside},"protocol":"{protocol}","hostIP":"{address}"}}"#
            )
        })
    };
    parse().ok_or_else(|| {
        failure!(
            "--publish {text}: must be [ADDRESS:]PORT:PORT or PORT:PORT/udp, that of the host first"
        )
    })
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
