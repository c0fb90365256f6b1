//! The runtime's configuration for a container of an image.
//!
//! The configuration combines Podman's defaults with the image's settings, converted as in the image specification
//! (conversion.md). These settings are not converted:
//!
//! - ExposedPorts, because the container has a network namespace of its own, and no ports are forwarded to it.
//! - Volumes: data written there stays in the container's writable layer, and is removed together with the layer.
//! - Labels that a runtime would interpret as instructions (`ORDERS`), because an image must not control the runtime.
//!
//! The configuration is made at import, so a start parses none of the image's documents. The seccomp profile is
//! dayfly's own (`defaults`), so it does not depend on a file of another package. Older versions of dayfly could write
//! a configuration without a filter; import such an image again. An image with a filter keeps it until then, too.

use crate::error::{Error, Result, unfit};
use crate::merged::Merged;
use crate::oci::{ImageConfig, Manifest};
use crate::user;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Prefixes of annotations that control runtimes.
const ORDERS: &[&str] =
    &["run.dayfly.", "run.oci.", "org.systemd.property.", "io.kubernetes.", "io.podman."];
/// The annotation that shows that a configuration has no seccomp filter on purpose. `run --image` refuses a
/// configuration that has neither a filter nor this annotation.
const SECCOMP: &str = "run.dayfly.seccomp";
/// The default search path, which suits Debian's and other images.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A configuration for the runtime, and the length of the image's Entrypoint. If the user gives another command, the
/// words of the Entrypoint are kept.
#[derive(Debug)]
pub struct Runtime {
    /// config.json
    pub config: Value,
    /// The number of words of the image's Entrypoint.
    pub entrypoint: usize,
}

/// Returns the seccomp profile for `name` in config.json's format: `default` is dayfly's own profile, `none` means no
/// filter, and any other name is a file in the engines' format.
///
/// # Errors
/// The file does not exist or is not a profile.
pub fn seccomp(name: &Path) -> Result<Option<Value>> {
    match name.to_str() {
        Some("none") => Ok(None),
        Some("default") => Ok(Some(spec::defaults::seccomp::own(spec::defaults::CAPABILITIES))),
        _ => {
            let text = std::fs::read_to_string(name).map_err(Error::at("read", name))?;
            spec::defaults::seccomp::from_text(&text, spec::defaults::CAPABILITIES)
                .map(Some)
                .map_err(|reason| unfit!("--seccomp {}: {reason}", name.display()))
        }
    }
}

/// Returns the configuration of a container of `image`. `root` is the merged view of the image's layers.
///
/// # Errors
/// The user does not exist in the image.
pub fn configure(
    image: &ImageConfig,
    manifest: &Manifest,
    root: &Merged,
    seccomp: Option<&Value>,
) -> Result<Runtime> {
    let execution = image.config.clone().unwrap_or_default();
    let user = user::resolve(execution.user.as_deref().unwrap_or_default(), root)?;
    let mut config = spec::defaults::podman();
    let process = &mut config["process"];
    process["user"] = json!({ "uid": user.uid, "gid": user.gid, "umask": 0o22 });
    if !user.groups.is_empty() {
        process["user"]["additionalGids"] = json!(user.groups);
    }
    if user.uid != 0 {
        // execve(2) by a non-root user would clear these sets as well. Only the bounding set remains.
        for set in ["effective", "permitted"] {
            process["capabilities"][set] = json!([]);
        }
    }
    let entrypoint = execution.entrypoint.unwrap_or_default();
    let words: Vec<&String> = entrypoint.iter().chain(execution.cmd.iter().flatten()).collect();
    process["args"] = json!(words);
    process["cwd"] = json!(directory(execution.working_dir.as_deref().unwrap_or_default()));
    let home = user.home.as_deref().unwrap_or("/");
    process["env"] = json!(environment(execution.env.unwrap_or_default(), home));
    let mut annotations = Map::new();
    let mut annotate = |name: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            annotations.insert(name.to_owned(), json!(value));
        }
    };
    annotate("org.opencontainers.image.os", Some(&image.os));
    annotate("org.opencontainers.image.architecture", Some(&image.architecture));
    annotate("org.opencontainers.image.variant", image.variant.as_deref());
    annotate("org.opencontainers.image.author", image.author.as_deref());
    annotate("org.opencontainers.image.created", image.created.as_deref());
    annotate("org.opencontainers.image.stopSignal", execution.stop_signal.as_deref());
    let said = manifest.annotations.iter().flatten().chain(execution.labels.iter().flatten());
    for (name, value) in said {
        if !ORDERS.iter().any(|order| name.starts_with(order)) {
            annotate(name, Some(value));
        }
    }
    match seccomp {
        Some(profile) => config["linux"]["seccomp"] = profile.clone(),
        None => drop(annotations.insert(SECCOMP.to_owned(), json!("none"))),
    }
    config["annotations"] = Value::Object(annotations);
    Ok(Runtime { config, entrypoint: entrypoint.len() })
}

fn directory(text: &str) -> String {
    format!("/{}", text.trim_start_matches('/'))
}

/// Returns the image's environment variables. Adds defaults for variables that programs expect, if the image does not
/// set them.
fn environment(mut variables: Vec<String>, home: &str) -> Vec<String> {
    let home = format!("HOME={home}");
    for default in [PATH, "TERM=xterm", "container=dayfly", &home] {
        let name = default.split_inclusive('=').next().unwrap_or_default();
        if !variables.iter().any(|variable| variable.starts_with(name)) {
            variables.push(default.to_owned());
        }
    }
    variables
}
