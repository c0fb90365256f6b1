//! The kinds of containers, and their configurations.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::layers::Layers;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// A kind of container.
pub struct Kind {
    pub name: &'static str,
    /// The relative frequency of the kind.
    weight: u64,
    /// Whether creating the container fails.
    pub fails: bool,
    /// Whether the container's root filesystem is assembled from layers.
    pub layered: bool,
    config: Value,
}

/// All kinds, sharing one root filesystem.
pub struct Kinds {
    kinds: Vec<Kind>,
    pub bundle: PathBuf,
    pub layers: Layers,
    parent: String,
}

const HOOKS: [&str; 6] =
    ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"];

impl Kinds {
    pub fn new(bed: &Bed, name: &str) -> Self {
        let first = bed.bundle();
        let bundle = first.dir.clone();
        let rootfs = first.rootfs();
        let kind = |name, weight, change: fn(Bundle<'_>) -> Bundle<'_>| {
            let described = change(Bundle::beside(bed, bundle.clone()));
            let config = described.set("/root/path", json!(rootfs)).config;
            Kind { name, weight, fails: false, layered: false, config }
        };
        let mut kinds = vec![
            kind("plain", 40, plain),
            kind("filtered", 12, filtered),
            kind("hooks", 6, hooked),
            kind("userns", 12, mapped),
            Kind { fails: true, ..kind("missing", 10, missing) },
            Kind { layered: true, ..kind("layers", 6, plain) },
        ];
        if has_limits(bed) {
            kinds.push(kind("limits", 14, limited));
        }
        Self { kinds, bundle, layers: Layers::new(bed, 5), parent: format!("/{name}") }
    }

    pub fn all(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.iter()
    }

    /// Returns the kind at `place`, a number below [`Kinds::weight`].
    pub fn at(&self, mut place: u64) -> &Kind {
        for kind in &self.kinds {
            match place.checked_sub(kind.weight) {
                Some(left) => place = left,
                None => return kind,
            }
        }
        &self.kinds[0]
    }

    pub fn weight(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.weight).sum()
    }

    /// Writes the configuration of container `id`. Its program keeps running if `stays` is true, or else exits at once.
    pub fn write(&self, kind: &Kind, id: &str, stays: bool) -> PathBuf {
        let mut config = kind.config.clone();
        if !kind.fails {
            let args = if stays { json!(["/bin/sleep", "1000"]) } else { json!(["/bin/true"]) };
            config["process"]["args"] = args;
        }
        config["linux"]["cgroupsPath"] = json!(format!("{}/{id}", self.parent));
        let file = self.bundle.join(format!("{id}-{}.json", if stays { "stays" } else { "ends" }));
        fs::write(&file, config.to_string()).expect("write config");
        file
    }
}

fn plain(bundle: Bundle<'_>) -> Bundle<'_> {
    bundle
}

fn hooked(bundle: Bundle<'_>) -> Bundle<'_> {
    HOOKS.iter().fold(bundle, |bundle, kind| {
        bundle.push(&format!("/hooks/{kind}"), json!({ "path": "/bin/true" }))
    })
}

fn mapped(bundle: Bundle<'_>) -> Bundle<'_> {
    let map = |first: u32| json!([{ "containerID": 0, "hostID": first, "size": 65_536 }]);
    bundle
        .push("/linux/namespaces", json!({ "type": "user" }))
        .set("/linux/uidMappings", map(100_000))
        .set("/linux/gidMappings", map(200_000))
}

fn missing(bundle: Bundle<'_>) -> Bundle<'_> {
    bundle.args(&["/no/such/program"])
}

fn filtered(bundle: Bundle<'_>) -> Bundle<'_> {
    let rule = json!({ "names": ["swapon"], "action": "SCMP_ACT_ERRNO" });
    bundle.set("/linux/seccomp", json!({ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule] }))
}

fn limited(bundle: Bundle<'_>) -> Bundle<'_> {
    bundle
        .set("/linux/resources/memory", json!({ "limit": 128 << 20 }))
        .set("/linux/resources/pids", json!({ "limit": 50 }))
}

/// Returns whether this view has the memory and pids controllers.
fn has_limits(bed: &Bed) -> bool {
    let controllers = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    let has = |name: &str| controllers.split_whitespace().any(|controller| controller == name);
    let all = bed.view.has_v1() || (has("memory") && has("pids"));
    if !all {
        println!(
            "storm: no containers with limits: cgroup v2 has no memory and pids controllers here"
        );
    }
    all
}
