//! The config.json that Podman 4 and 5 write by default, and variations of it.
//!
//! The `ociVersion` is 1.0.2, which crun 1.8 (Debian 12) still accepts. The configuration contains no property of a
//! later version.

use crate::base::*;
use crate::rootfs;
use spec::defaults::{CAPABILITIES, seccomp};

/// The host uid that root of a user namespace is mapped to.
pub const MAPPED_ROOT: u32 = 100_000;

/// The number of ids of a user namespace.
pub const IDS: u32 = 65_536;

/// The program of the createRuntime hook.
pub const HOOK: &str = "/bin/true";

/// A kind of container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Podman's defaults, with dayfly's own seccomp profile.
    Seccomp,
    /// Podman's defaults without seccomp.
    Plain,
    /// `seccomp`, in a user namespace.
    Userns,
    /// `seccomp`, with a createRuntime hook: /bin/true.
    Hooks,
    /// `seccomp`, joining the network, IPC, UTS and PID namespaces of another container, as a
    /// pod's second container does.
    Joined,
    /// `seccomp`, with limits of memory, CPU time and processes.
    Limits,
}

impl Profile {
    /// Returns the owner of the root filesystem.
    pub fn owner(self) -> u32 {
        if self == Self::Userns { MAPPED_ROOT } else { 0 }
    }
}

/// Returns the configuration of a container of the kind `profile`, with its root filesystem in `rootfs`. For
/// [`Profile::Joined`], the configuration has new namespaces; [`join`] replaces some of them by those of another
/// container.
pub fn podman(profile: Profile) -> Value {
    let mut config = spec::defaults::podman();
    config["hostname"] = json!("bench");
    if profile != Profile::Plain {
        config["linux"]["seccomp"] = seccomp::own(CAPABILITIES);
    }
    match profile {
        Profile::Userns => map_ids(&mut config),
        Profile::Hooks => config["hooks"] = json!({ "createRuntime": [{ "path": HOOK }] }),
        Profile::Limits => limit(&mut config),
        Profile::Seccomp | Profile::Plain | Profile::Joined => {}
    }
    config
}

/// `bundle`.
#[derive(Debug, Args)]
pub struct Bundle {
    /// The directory to create
    pub directory: PathBuf,
    /// The kind of container; a container of the kind joined has its own namespaces, until an
    /// experiment replaces them by those of another container
    #[arg(long, value_enum, default_value_t = Profile::Seccomp)]
    pub profile: Profile,
}

/// Writes the bundle that the experiments use.
///
/// # Errors
/// The directory exists; it can't be filled.
pub fn write(options: &Bundle) -> Result<(), Error> {
    let directory = &options.directory;
    fs::create_dir(directory).map_err(Error::at("make", directory))?;
    rootfs::make(&directory.join("rootfs"), options.profile.owner())?;
    let (file, config) = (directory.join("config.json"), podman(options.profile));
    fs::write(&file, format!("{config:#}\n")).map_err(Error::at("write", &file))
}

/// Gives the container a user namespace whose ids begin with [`MAPPED_ROOT`].
pub fn map_ids(config: &mut Value) {
    let mapping = json!([{ "containerID": 0, "hostID": MAPPED_ROOT, "size": IDS }]);
    config["linux"]["uidMappings"] = mapping.clone();
    config["linux"]["gidMappings"] = mapping;
    if let Some(namespaces) = config["linux"]["namespaces"].as_array_mut() {
        namespaces.push(json!({ "type": "user" }));
    }
}

/// Limits the container as an engine does that is given limits of everything.
fn limit(config: &mut Value) {
    let resources = &mut config["linux"]["resources"];
    resources["memory"] = json!({ "limit": 64 << 20 });
    resources["cpu"] = json!({ "shares": 512, "quota": 50_000, "period": 100_000 });
    resources["pids"] = json!({ "limit": 50 });
}

/// Makes the container join the network, IPC, UTS and PID namespaces of the process `pid`.
pub fn join(config: &mut Value, pid: i32) {
    let namespaces = config["linux"]["namespaces"].as_array_mut();
    for namespace in namespaces.into_iter().flatten() {
        let file = match namespace["type"].as_str() {
            Some("network") => "net",
            Some("ipc") => "ipc",
            Some("uts") => "uts",
            Some("pid") => "pid",
            _ => continue,
        };
        namespace["path"] = json!(format!("/proc/{pid}/ns/{file}"));
    }
    // The host name belongs to the container that owns the UTS namespace.
    if let Some(config) = config.as_object_mut() {
        config.remove("hostname");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_container_is_podmans() {
        let config = podman(Profile::Plain);
        let count = |pointer: &str| config.pointer(pointer).and_then(Value::as_array).map(Vec::len);
        assert_eq!(count("/linux/namespaces"), Some(6));
        assert_eq!(count("/linux/maskedPaths"), Some(11));
        assert_eq!(count("/linux/readonlyPaths"), Some(6));
        assert_eq!(count("/process/capabilities/bounding"), Some(11));
        assert_eq!(count("/mounts"), Some(7));
        assert!(config["linux"]["seccomp"].is_null());
    }

    #[test]
    fn a_pods_container_joins() {
        let mut config = podman(Profile::Plain);
        join(&mut config, 7);
        let paths: Vec<&str> = config["linux"]["namespaces"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|namespace| namespace["path"].as_str())
            .collect();
        assert_eq!(paths, ["/proc/7/ns/pid", "/proc/7/ns/net", "/proc/7/ns/ipc", "/proc/7/ns/uts"]);
        assert!(config["hostname"].is_null());
    }
}
