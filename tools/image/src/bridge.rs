//! `run --network bridge` and `run -p`: a network by the CNI plugins bridge, host-local and portmap, as hooks of the
//! container. `dayfly run` adds the hooks, which get the container's state on standard input.
//!
//! The container's network namespace is mounted in [`PLACE`] until the container is removed: a plugin that undoes its
//! work after the program's end needs it. All that lasts is in /run, so that a boot forgets it, or in netfilter.

use crate::digest::Digest;
use crate::error::{Error, Result, bail, unfit};
use crate::oci::parse;
use clap::Args;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directory for network namespaces, addresses in use and published ports.
const PLACE: &str = "/run/dayfly-net";

/// `dayfly-image bridge`
#[derive(Debug, Clone, Args)]
pub struct Bridge {
    /// add: connect a container; del: undo it
    #[arg(value_parser = ["add", "del"])]
    verb: String,
    /// The directory of the CNI plugins
    plugins: PathBuf,
    /// The published ports, as JSON
    ports: String,
}

/// The part of a container's state that is used.
#[derive(Deserialize)]
struct State {
    id: String,
    bundle: String,
    #[serde(default)]
    pid: u32,
}

/// A published port, as CNI has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    host_port: u16,
    container_port: u16,
    protocol: String,
    #[serde(rename = "hostIP", default)]
    host_ip: String,
}

/// Executes a hook.
///
/// # Errors
/// Those of the plugins, with their message; a port that is in use.
pub fn execute(hook: &Bridge) -> Result<()> {
    let state: State = serde_json::from_reader(io::stdin())
        .map_err(|error| unfit!("the container's state on standard input: {error}"))?;
    let ports: Vec<Port> = parse(hook.ports.as_bytes(), "the list of ports")?;
    // Only containers of different stores, with different bundles, can have the same id.
    let bundle = Digest::of(state.bundle.as_bytes()).hex();
    let name = format!("{}-{}", state.id, &bundle[..8]);
    let network = Network { name, plugins: &hook.plugins, ports };
    if hook.verb == "del" {
        return network.delete();
    }
    network.begin()?;
    network.add(state.pid).inspect_err(|_| drop(network.delete()))
}

struct Network<'a> {
    /// The container's name among those of all stores.
    name: String,
    plugins: &'a Path,
    ports: Vec<Port>,
}

impl Network<'_> {
    /// The path at which the network namespace is mounted.
    fn namespace(&self) -> PathBuf {
        Path::new(PLACE).join("namespaces").join(&self.name)
    }

    fn claim(port: &Port) -> PathBuf {
        Path::new(PLACE).join("ports").join(format!("{}-{}", port.protocol, port.host_port))
    }

    /// Takes the name.
    fn begin(&self) -> Result<()> {
        for directory in ["namespaces", "ports"] {
            let path = Path::new(PLACE).join(directory);
            fs::create_dir_all(&path).map_err(Error::at("make", path))?;
        }
        let namespace = self.namespace();
        File::create_new(&namespace).map(drop).map_err(Error::at("create", namespace))
    }

    fn add(&self, pid: u32) -> Result<()> {
        for port in &self.ports {
            let (path, number) = (Self::claim(port), port.host_port);
            let address = port.host_ip.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            // Nobody else would notice that the port is not theirs any more.
            let free = match &*port.protocol {
                "udp" => UdpSocket::bind((address, number)).map(drop),
                _ => TcpListener::bind((address, number)).map(drop),
            };
            free.map_err(Error::at("publish port", number.to_string()))?;
            if let Err(error) = symlink(&self.name, &path) {
                let owner = fs::read_link(&path).map_err(|_| Error::at("symlink", &path)(error))?;
                let owner = owner.display().to_string();
                let id = owner.rsplit_once('-').map_or(&*owner, |(id, _)| id);
                bail!("port {number} is published by container {id}");
            }
        }
        let namespace = self.namespace();
        mount_bind(format!("/proc/{pid}/ns/net"), &namespace)
            .map_err(Error::at("mount", &namespace))?;
        let result = self.call("ADD", "bridge", bridge())?;
        if !self.ports.is_empty() {
            let mut config = self.portmap();
            config["prevResult"] = parse(&result, "the answer of the plugin bridge")?;
            self.call("ADD", "portmap", config)?;
        }
        Ok(())
    }

    /// Undoes everything, as far as it was done; the first error is returned.
    fn delete(&self) -> Result<()> {
        let namespace = self.namespace();
        let mut all = Vec::new();
        if namespace.exists() {
            if !self.ports.is_empty() {
                all.push(self.call("DEL", "portmap", self.portmap()).map(drop));
            }
            all.push(self.call("DEL", "bridge", bridge()).map(drop));
            let _ = unmount(&namespace, UnmountFlags::DETACH);
            all.push(fs::remove_file(&namespace).map_err(Error::at("unlink", &namespace)));
        }
        for path in self.ports.iter().map(Self::claim) {
            if fs::read_link(&path).is_ok_and(|owner| owner == Path::new(&self.name)) {
                let _ = fs::remove_file(&path);
            }
        }
        all.into_iter().collect()
    }

    fn portmap(&self) -> Value {
        json!({
            "cniVersion": "1.0.0", "name": "dayfly", "type": "portmap",
            "capabilities": { "portMappings": true },
            "runtimeConfig": { "portMappings": self.ports },
        })
    }

    /// Calls a plugin; returns what it prints.
    fn call(&self, verb: &str, plugin: &str, config: Value) -> Result<Vec<u8>> {
        let program = self.plugins.join(plugin);
        let mut child = Command::new(&program)
            .env("CNI_COMMAND", verb)
            .env("CNI_CONTAINERID", &self.name)
            .env("CNI_NETNS", self.namespace())
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", self.plugins)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::at("execute", &program))?;
        if let Some(mut input) = child.stdin.take() {
            input
                .write_all(config.to_string().as_bytes())
                .map_err(Error::at("write to", plugin))?;
        }
        let output = child.wait_with_output().map_err(Error::at("wait for", plugin))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let answer = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
        bail!("CNI plugin {plugin}: {}", answer["msg"].as_str().unwrap_or("no reason given"))
    }
}

/// Returns the configuration of the network, which all containers share.
fn bridge() -> Value {
    json!({
        "cniVersion": "1.0.0", "name": "dayfly", "type": "bridge",
        "bridge": "dayfly0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
        "ipam": {
            "type": "host-local", "dataDir": format!("{PLACE}/addresses"),
            "ranges": [[{ "subnet": "10.91.0.0/16" }]], "routes": [{ "dst": "0.0.0.0/0" }],
        },
    })
}
