//! Draws a case from a seed: a configuration, the image below it, and how the container is run.
//!
//! A case is a JSON value, so that the shrinker can drop any part of it: `config` is the config.json, `image` the list of
//! the root filesystem's entries, `exec` a process.json or null, `detach` says whether the runtime stays.
//!
//! Words that begin with `@` stand for places of the worker: `@H` is the tree of host files that mounts have as their
//! sources, `@N` has pinned namespaces, `@P` is the probe, `@L` is the log of hooks, `@C` is the parent of cgroups.

mod image;
mod kernel;
mod mounts;
mod process;
mod rootless;

pub(crate) use mounts::FLAGS;

use crate::differ::random::Random;
use crate::differ::view::View;
use serde_json::{Value, json};

/// Destinations of mounts, paths of masks, working directories: what are directories, or missing.
pub(crate) const PLACES: &[&str] = &[
    "/a",
    "/a/b",
    "/a/b/c",
    "/b",
    "/link",
    "/link/b",
    "/abs",
    "/up/b",
    "/missing",
    "/missing/x/y",
    "/tmp",
    "/tmp/t",
    "/run",
    "/run/x",
    "/dev/extra",
    "/opt/data",
    "/dangling",
];
/// The same for files.
pub(crate) const FILE_PLACES: &[&str] = &[
    "/f",
    "/a/f",
    "/etc/hosts",
    "/etc/new",
    "/su",
    "/flink",
    "/new",
    "/link/f",
    "/abs/new",
    "/dev/file",
];

/// Returns the case of a seed in a view.
#[must_use]
pub fn case(seed: u64, view: View) -> Value {
    let random = &mut Random::new(seed);
    let namespaces = kernel::namespaces(random);
    let has = |kind: &str| namespaces.iter().any(|one| one["type"] == kind);
    let mut linux = json!({});
    if has("user") || random.odd(2) {
        kernel::mappings(random, &mut linux);
    }
    let mut config = json!({
        "ociVersion": random.pick(&["1.0.0", "1.0.2", "1.1.0", "1.2.0", "1.2.1"]),
        "root": { "path": "rootfs", "readonly": random.chance(25) },
    });
    if random.chance(2) {
        config["root"]["path"] = random.pick(&["@B/rootfs", "./rootfs", "rootfs/../rootfs"]).into();
    }
    config["process"] = process::draw(random);
    config["mounts"] = mounts::draw(random, has("mount")).into();
    if (has("uts") && random.chance(50)) || random.odd(3) {
        config["hostname"] = random.pick(&["drawn", "a.b.c", "x-1"]).into();
    }
    if (has("uts") && random.chance(10)) || random.odd(1) {
        config["domainname"] = random.pick(&["drawn.example", "d"]).into();
    }
    kernel::draw(random, &mut linux, view, &namespaces);
    if !has("mount")
        && let Some(linux) = linux.as_object_mut()
    {
        // runc refuses both.
        linux.remove("maskedPaths");
        linux.remove("readonlyPaths");
    }
    linux["namespaces"] = namespaces.into();
    config["linux"] = linux;
    let hooks = hooks(random);
    if !hooks.is_null() {
        config["hooks"] = hooks;
    }
    if random.chance(5) {
        config["annotations"] = json!({ "org.example.key": "value" });
    }
    let with_exec = random.chance(5);
    let exec = if with_exec { process::draw_exec(random) } else { Value::Null };
    let detach = with_exec || random.chance(3);
    if detach {
        // Would need a console socket.
        if let Some(process) = config["process"].as_object_mut() {
            process.remove("terminal");
        }
    }
    let owner = config["linux"]["uidMappings"][0]["hostID"]
        .as_u64()
        .filter(|_| random.chance(80))
        .unwrap_or(0);
    json!({ "config": config, "image": image::draw(random, owner), "exec": exec, "detach": detach })
}

/// Returns the case of a seed in a view, as a user who is not root can run it.
#[must_use]
pub fn rootless_case(seed: u64, view: View) -> Value {
    let mut case = case(seed, view);
    rootless::change(&mut case, seed);
    case
}

fn hooks(random: &mut Random) -> Value {
    let mut hooks = Value::Null;
    let kinds =
        ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"];
    for kind in random.some(&kinds, 8) {
        let (path, log) =
            if kind == "startContainer" { ("/probe", "/hooklog") } else { ("@P", "@L") };
        let mut args = vec!["probe", "hook", kind, log];
        if random.odd(20) {
            args.push("fail");
        }
        let mut hook = json!({ "path": path, "args": args });
        if random.chance(60) {
            hook["env"] = json!(["HOOK=1", "PATH=/bin"]);
        }
        if random.chance(60) {
            hook["timeout"] = 5.into();
        }
        if random.odd(10) {
            hook["path"] = "/missing/hook".into();
        }
        let mut all = vec![hook.clone()];
        if random.chance(20) {
            all.push(hook);
        }
        hooks[kind] = all.into();
    }
    hooks
}

#[cfg(test)]
mod tests {
    use super::case;
    use crate::differ::view::View;

    #[test]
    fn a_seed_is_a_case() {
        for seed in 0..200 {
            let drawn = case(seed, View::V1);
            assert_eq!(drawn, case(seed, View::V1));
            assert!(drawn["config"]["process"]["args"].is_array());
            assert!(drawn["config"]["linux"]["namespaces"].is_array());
        }
        assert_ne!(case(1, View::V2), case(2, View::V2));
    }
}
