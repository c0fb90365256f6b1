//! A bundle: a rootfs and a config.json built in code.

use crate::bed::Bed;
use crate::cgroups;
use crate::container::Container;
use serde_json::{Value, json};
pub use spec::defaults::CAPABILITIES;
use std::fs;
use std::path::{Path, PathBuf};

/// A bundle under construction.
pub struct Bundle<'a> {
    bed: &'a Bed,
    /// The bundle directory; its root filesystem is `rootfs/`.
    pub dir: PathBuf,
    /// The configuration as it will be written.
    pub config: Value,
}

impl<'a> Bundle<'a> {
    pub(crate) fn new(bed: &'a Bed, dir: PathBuf) -> Self {
        let mut bundle = Self { bed, dir, config: base() };
        if bed.view.has_v1() {
            // A device rule is set only if v1 has the controllers. On v2 a device rule is an eBPF program; cases that
            // need one set a rule themselves.
            bundle = bundle.set(
                "/linux/resources",
                json!({ "devices": [{ "allow": false, "access": "rwm" }] }),
            );
        }
        bundle
    }

    /// Returns a bundle in an existing directory, which may contain other files.
    #[must_use]
    pub fn beside(bed: &'a Bed, dir: PathBuf) -> Self {
        Self::new(bed, dir)
    }

    /// Returns the root filesystem's directory.
    #[must_use]
    pub fn rootfs(&self) -> PathBuf {
        self.dir.join("rootfs")
    }

    /// Sets the process's arguments.
    #[must_use]
    pub fn args(self, args: &[&str]) -> Self {
        self.set("/process/args", json!(args))
    }

    /// Makes the process the container's shell, running `script`.
    #[must_use]
    pub fn sh(self, script: &str) -> Self {
        self.args(&["/bin/sh", "-c", script])
    }

    /// Sets the value at a JSON pointer, creating missing objects.
    ///
    /// # Panics
    /// When the pointer leads through a value that is not an object.
    #[must_use]
    pub fn set(mut self, pointer: &str, value: Value) -> Self {
        let mut at = &mut self.config;
        for key in pointer.trim_start_matches('/').split('/') {
            if at.is_null() {
                *at = json!({});
            }
            at = match at {
                Value::Array(items) => {
                    let index: usize = key.parse().expect("array index");
                    &mut items[index]
                }
                other => &mut other[key],
            };
        }
        *at = value;
        self
    }

    /// Appends to the array at a JSON pointer, creating it if it is missing.
    ///
    /// # Panics
    /// When the value there is not an array.
    #[must_use]
    pub fn push(self, pointer: &str, value: Value) -> Self {
        let mut items = match self.config.pointer(pointer) {
            Some(Value::Array(items)) => items.clone(),
            None | Some(Value::Null) => Vec::new(),
            Some(other) => panic!("{pointer} is no array: {other}"),
        };
        items.push(value);
        self.set(pointer, Value::Array(items))
    }

    /// Removes the value at a JSON pointer.
    ///
    /// # Panics
    /// When the pointer has no parent.
    #[must_use]
    pub fn unset(mut self, pointer: &str) -> Self {
        let (parent, key) = pointer.rsplit_once('/').expect("pointer with a parent");
        if let Some(object) = self.config.pointer_mut(parent).and_then(Value::as_object_mut) {
            object.remove(key);
        }
        self
    }

    /// Adds a mount.
    #[must_use]
    pub fn mount(self, kind: &str, source: &str, destination: &str, options: &[&str]) -> Self {
        self.push(
            "/mounts",
            json!({ "destination": destination, "type": kind, "source": source, "options": options }),
        )
    }

    /// Mounts the host's programs and libraries, read-only.
    #[must_use]
    pub fn host_programs(self) -> Self {
        let places = [("/usr", "/usr"), ("/usr/lib", "/lib"), ("/usr/lib64", "/lib64")];
        let there = places.into_iter().filter(|(source, _)| Path::new(source).exists());
        there.fold(self, |bundle, (source, place)| {
            bundle.mount("bind", source, place, &["rbind", "ro"])
        })
    }

    /// Replaces the mount at `destination`.
    ///
    /// # Panics
    /// When there is no such mount.
    #[must_use]
    pub fn remount(mut self, destination: &str, mount: Value) -> Self {
        let mounts = self.config["mounts"].as_array_mut().expect("mounts");
        let slot = mounts.iter_mut().find(|mount| mount["destination"] == destination);
        *slot.expect("mount to replace") = mount;
        self
    }

    /// Removes the namespace `kind` from the list.
    #[must_use]
    pub fn without_namespace(mut self, kind: &str) -> Self {
        if let Some(list) =
            self.config.pointer_mut("/linux/namespaces").and_then(Value::as_array_mut)
        {
            list.retain(|namespace| namespace["type"] != kind);
        }
        self
    }

    /// Joins the namespace at `path` instead of making a new one.
    #[must_use]
    pub fn join_namespace(self, kind: &str, path: &str) -> Self {
        self.without_namespace(kind)
            .push("/linux/namespaces", json!({ "type": kind, "path": path }))
    }

    /// Writes the bundle under a fresh container id.
    #[must_use]
    pub fn make(self) -> Container<'a> {
        let id = self.bed.id();
        self.make_as(&id)
    }

    /// Writes the bundle for the container `id`. A `cgroupsPath` that was set before is kept.
    ///
    /// # Panics
    /// When the file can't be written.
    #[must_use]
    pub fn make_as(mut self, id: &str) -> Container<'a> {
        if self.config.pointer("/linux/cgroupsPath").is_none() {
            self = self.set("/linux/cgroupsPath", json!(cgroups::path_of(id)));
        }
        let text = serde_json::to_vec_pretty(&self.config).expect("serialise config");
        fs::write(self.dir.join("config.json"), text).expect("write config.json");
        Container::new(self.bed, id.to_owned(), self.dir)
    }
}

/// Returns the configuration that cases start from: Podman's defaults without their device rule.
#[must_use]
pub fn base() -> Value {
    let mut config = spec::defaults::podman();
    config["process"]["args"] = json!(["/bin/sleep", "1000"]);
    config["process"]["rlimits"] = json!([{ "type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024 }]);
    config["hostname"] = json!("dayfly-test");
    if let Some(linux) = config["linux"].as_object_mut() {
        linux.remove("resources");
    }
    // Mounts are private anyway; the option would add a system call, which tests/weight.json does not include.
    for mount in config["mounts"].as_array_mut().into_iter().flatten() {
        if let Some(options) = mount["options"].as_array_mut() {
            options.retain(|option| option != "rprivate");
        }
    }
    config
}
