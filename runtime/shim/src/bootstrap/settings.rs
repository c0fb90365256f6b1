//! `/etc/dayfly/shim.toml`: the administrator's settings for every shim of a host. containerd
//! passes options only to some shims and in some formats; this file applies whether or not
//! containerd passes options.

use alloc::format;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;

use super::Failure;
use super::toml::{self, Entry, Value};

/// The file, which need not exist.
const PATH: &str = "/etc/dayfly/shim.toml";
/// The environment variable that names another file, which must exist.
const VARIABLE: &str = "DAYFLY_SHIM_SETTINGS";

/// The settings of a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// `HostRootfs`: whether every container's root filesystem is mounted in the bundle, where the
    /// host sees it, as containerd's own shim does.
    pub host_rootfs: bool,
}

impl Settings {
    /// Reads the file that the environment names, or else `/etc/dayfly/shim.toml`.
    ///
    /// # Errors
    /// If the file exists and is not readable, does not belong to root, or contains an unknown key or a value of the
    /// wrong type; if the file that the environment names does not exist.
    pub fn read(args: sys::Args) -> Result<Self, Failure> {
        let path = match args.env(VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => path,
            None => match accessat(CWD, PATH, Access::EXISTS, AtFlags::empty()) {
                Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Self::default()),
                _ => PATH,
            },
        };
        let text = toml::read_file("settings", path)?;
        let text = core::str::from_utf8(&text)
            .map_err(|_| Failure::from(format!("settings {path}: not UTF-8")))?;
        Self::of_text(text).map_err(|fault| format!("settings {path}, {fault}").into())
    }

    fn of_text(text: &str) -> Result<Self, alloc::string::String> {
        let mut settings = Self::default();
        for Entry { line, key, name, value } in toml::entries(text) {
            match (name.as_str(), value) {
                ("hostrootfs", Some(Value::Boolean(value))) => settings.host_rootfs = value,
                ("hostrootfs", _) => {
                    return Err(format!("line {line}: {key} must be true or false"));
                }
                _ => return Err(format!("line {line}: unknown key {key} (known: HostRootfs)")),
            }
        }
        Ok(settings)
    }
}
