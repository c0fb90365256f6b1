//! Makes a case one that an unprivileged user can run.

use crate::differ::bed::{FIRST_SUB_ID, USER};
use crate::differ::random::Random;
use serde_json::{Value, json};

/// Changes a drawn case: the container has a user namespace with the user's ids, the image belongs to them, and what
/// needs a delegated cgroup, namespaces of root, or a terminal of the user's is left out. So is, in most cases, what the
/// kernel refuses to users.
pub(super) fn change(case: &mut Value, seed: u64) {
    let random = &mut Random::new(!seed);
    let config = &mut case["config"];
    let linux = &mut config["linux"];
    let mappings = json!([
        { "containerID": 0, "hostID": USER, "size": 1 },
        { "containerID": 1, "hostID": FIRST_SUB_ID, "size": 65535 },
    ]);
    linux["uidMappings"] = mappings.clone();
    linux["gidMappings"] = mappings;
    let namespaces = linux["namespaces"].as_array_mut().into_iter();
    for all in namespaces {
        for one in all.iter_mut().filter_map(Value::as_object_mut) {
            one.remove("path");
        }
        // Without them, an unprivileged caller can mount nothing; without the others, not all file systems.
        for (kind, percent) in
            [("user", 100), ("mount", 100), ("pid", 90), ("ipc", 90), ("network", 80)]
        {
            if random.chance(percent) && !all.iter().any(|one| one["type"] == kind) {
                all.push(json!({ "type": kind }));
            }
        }
    }
    if let Some(linux) = linux.as_object_mut() {
        linux.remove("cgroupsPath");
        linux.remove("resources");
        // Devices are binds of the host's, which has few of these.
        if random.chance(90) {
            linux.remove("devices");
        }
    }
    if let Some(process) = config["process"].as_object_mut() {
        process.remove("terminal");
        process.remove("consoleSize");
    }
    // A user who is not root may not call setgroups(2) everywhere.
    if random.chance(90) {
        drop_groups(&mut config["process"]);
    }
    // A bind without what is mounted below would uncover it.
    for mount in config["mounts"].as_array_mut().into_iter().flatten() {
        for word in mount["options"].as_array_mut().into_iter().flatten() {
            if *word == "bind" && random.chance(80) {
                *word = "rbind".into();
            }
        }
    }
    if random.chance(90) {
        drop_groups(&mut case["exec"]);
    }
    for entry in case["image"].as_array_mut().into_iter().flatten() {
        entry["owner"] = match entry["owner"].as_u64().unwrap_or(0) {
            owner @ 1..=65535 => (u64::from(FIRST_SUB_ID) + owner - 1).into(),
            _ => USER.into(),
        };
    }
    case["rootless"] = true.into();
}

fn drop_groups(process: &mut Value) {
    if let Some(user) = process.get_mut("user").and_then(Value::as_object_mut) {
        user.remove("additionalGids");
    }
}
