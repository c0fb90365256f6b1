//! Recursive bind mounts of the host's root on a host that has been in use: its mounts are shared, as systemd makes them,
//! and namespaces of all kinds are pinned, mount namespaces below a private mount, as snapd and dayfly do.
//!
//! Public reports of "too many levels of symbolic links", or of the wrong root: runc #4767, distrobox #1359,
//! toolbox #1085, chimera cports #1718, crun #2262 and #2264.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::container::Container;
use dayfly_tests::runtime::Outcome;
use serde_json::json;
use std::process::Command;

/// Makes such a host of the mount namespace. A mount namespace can be pinned only from the CPU where the present one was
/// made, or a later one (Linux 6.18), so this is tried on every CPU.
const HOST: &str = r#"set -eu
    mount --make-rshared /
    mkdir -p "$BED/pins" "$BED/others" "$BED/later"
    echo host >"$BED/word"
    mount --bind "$BED/pins" "$BED/pins"
    mount --make-private "$BED/pins"
    mount -t tmpfs later "$BED/later"
    mkdir "$BED/later/place"
    pin() {
        : >"$1"
        for cpu in $(seq 0 $(($(nproc --all) - 1))); do
            ! taskset -c "$cpu" unshare --mount="$1" true 2>/dev/null || return 0
        done
        echo "cannot pin $1"
        return 1
    }
    for name in one two three; do pin "$BED/pins/$name"; done
    for kind in net uts ipc user; do
        : >"$BED/others/$kind"
        mount --bind "/proc/self/ns/$kind" "$BED/others/$kind"
    done
    dayfly() { "$RUNTIME" --root "$BED/root" "$@" </dev/null; }
"#;

/// Whether the host has the programs that this needs.
pub fn has_programs() -> Result<(), String> {
    let has = |program: &str, option: &str| {
        let help = Command::new(program).arg("--help").output();
        help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains(option))
    };
    match has("unshare", "--mount[=<file>]") && has("taskset", "--cpu-list") {
        true => Ok(()),
        false => Err("no unshare and taskset of util-linux".to_owned()),
    }
}

/// Runs a script on a used host. The script calls the runtime as `dayfly`, for the container `$ID`.
fn on_used_host(c: &Container<'_>, way: &str, script: &str) -> Outcome {
    let whole = format!("{HOST}{script}");
    c.bed
        .program("unshare", &["-m", "--propagation", "private", "sh", "-c", &whole])
        .env("BED", &c.bed.dir.to_string_lossy())
        .env("RUNTIME", &c.bed.runtime().to_string_lossy())
        .env("BUNDLE", &c.bundle.to_string_lossy())
        .env("ID", &c.id)
        .env("DAYFLY_WITHOUT", way)
        .run()
}

/// Returns a bundle that prints a file of the host's, and counts the pins below /host: of mount namespaces, and of others.
fn looking<'a>(bed: &Bed, bundle: Bundle<'a>, source: &str, options: &[&str]) -> Bundle<'a> {
    let bed = bed.dir.display().to_string();
    let place = if bed == source { "/host".to_owned() } else { format!("/host{bed}") };
    let script = format!(
        "cat {place}/word; grep -c ' mnt:.* /host' /proc/self/mountinfo
         grep -cE ' (net|uts|ipc|user):.* {place}/others/' /proc/self/mountinfo"
    );
    let options = [&["rbind"], options].concat();
    bundle.mount("bind", source, "/host", &options).sh(&script)
}

const SEEN: &str = "host\n0\n4\n";
const RUN: &str = "dayfly run --bundle \"$BUNDLE\" \"$ID\"";

pub fn rbind_of_the_hosts_root(bed: &Bed) {
    let own = bed.dir.display().to_string();
    for (source, options) in [
        ("/", &[][..]),
        // node-exporter: `-v /:/host:ro,rslave`
        ("/", &["ro", "rslave"]),
        // distrobox: `-v /:/run/host:rslave`
        ("/.", &["rslave"]),
        ("/tmp/..", &["rshared"]),
        ("/", &["rprivate"]),
        ("/", &["rro"]),
        (&own, &["ro"]),
    ] {
        for namespaces in [Bed::bundle, crate::userns::mapped] {
            let c = looking(bed, namespaces(bed), source, options).make();
            for way in ["", "blank-namespace"] {
                let outcome = on_used_host(&c, way, RUN);
                assert_eq!(outcome.ok().stdout, SEEN, "{source} {options:?} without {way:?}");
            }
        }
    }
}

/// The first start makes dayfly's own pin, and Linux 6.18 takes some mount namespaces for younger than they are. So one start
/// proves little.
pub fn rbind_of_the_hosts_root_a_hundred_times(bed: &Bed) {
    let c = looking(bed, bed.bundle(), "/", &["rslave"]).make();
    let script =
        format!("for n in $(seq 100); do {RUN} | tr '\\n' ' '; echo; done | sort | uniq -c");
    let outcome = on_used_host(&c, "", &script).ok();
    assert_eq!(outcome.stdout.trim(), "100 host 0 4", "{outcome}");
}

/// The bundle's root is the host's root (`root.path` is `/`).
pub fn the_hosts_root_as_root(bed: &Bed) {
    let script = "cat \"$0/word\"; grep -c ' mnt:' /proc/self/mountinfo; true";
    let c = bed
        .bundle()
        .set("/root", json!({ "path": "/", "readonly": true }))
        .set("/mounts", json!([{ "destination": "/proc", "type": "proc", "source": "proc" }]))
        .set("/process/args", json!(["/bin/sh", "-c", script, bed.dir]))
        .make();
    let outcome = on_used_host(&c, "", &format!("for n in 1 2 3; do {RUN}; done")).ok();
    assert_eq!(outcome.stdout, "host\n0\n".repeat(3), "{outcome}");
}

/// # Errors
/// What this host lacks.
pub fn may_mount_in_copies() -> Result<(), String> {
    has_programs().and_then(|()| dayfly_tests::kernel::has_detached())
}

/// Without a mount namespace, mounts are made in the copy of the root, which has to be made in the host's namespace. The
/// mount below the root makes dayfly look for pins.
pub fn no_mount_namespace_beside_pins(bed: &Bed) {
    let none = json!([]);
    let bundle = bed.bundle().set("/linux/maskedPaths", none.clone());
    let bundle = bundle.set("/linux/readonlyPaths", none).without_namespace("mount");
    let c = bundle.sh("echo inside").make();
    let script = format!(
        "mkdir -p \"$BUNDLE/rootfs/below\"; mount -t tmpfs below \"$BUNDLE/rootfs/below\"; {RUN}"
    );
    assert_eq!(on_used_host(&c, "", &script).ok().stdout, "inside\n");
}

/// The tree is still a slave of the host's mounts, or their peer (`HostToContainer` and `Bidirectional` of Kubernetes).
pub fn mounts_propagate_without_pins(bed: &Bed) {
    let sleeping = |option: &str, root: &str| {
        looking(bed, bed.bundle(), "/", &[option])
            .set("/linux/rootfsPropagation", json!(root))
            .push("/process/capabilities/bounding", json!("CAP_SYS_ADMIN"))
            .push("/process/capabilities/effective", json!("CAP_SYS_ADMIN"))
            .push("/process/capabilities/permitted", json!("CAP_SYS_ADMIN"))
            .sh("exec sleep 1000")
            .make()
    };
    let start = "dayfly run --detach --bundle \"$BUNDLE\" \"$ID\" >/dev/null 2>&1";
    let end = "dayfly delete --force \"$ID\"";
    let c = sleeping("rslave", "rslave");
    let arrives = format!(
        "{start}; mount -t tmpfs late \"$BED/later/place\"; echo arrived >\"$BED/later/place/word\"
         dayfly exec \"$ID\" cat \"/host$BED/later/place/word\"; {end}"
    );
    assert_eq!(on_used_host(&c, "", &arrives).ok().stdout, "arrived\n");
    let c = sleeping("rshared", "rshared");
    let leaves = format!(
        "{start}; dayfly exec \"$ID\" mount -t tmpfs inside \"/host$BED/later/place\"
         grep -c ' - tmpfs inside ' /proc/self/mountinfo; {end}"
    );
    assert_eq!(on_used_host(&c, "", &leaves).ok().stdout, "1\n");
}
