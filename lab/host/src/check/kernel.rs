//! The kernel features that starts use, and the fallbacks that starts on this host use instead.

use super::probe::{self, FileSystems, Layers};
use super::verdict::Level::{Error, Good, Note, Warning};
use super::verdict::{Section, Verdict};
use crate::facts::Facts;
use crate::layout::{Layout, Mode};

/// The namespaces of a container.
const NAMESPACES: [&str; 8] = ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"];

/// Directories in which engines keep layers, or would keep them.
const STORES: [&str; 3] = ["/var/lib/dayfly", "/var/lib", "/usr"];

/// Returns the verdicts on the kernel.
#[must_use]
pub fn section(facts: &Facts, layout: &Layout) -> Section {
    let systems = match facts.is_live() {
        true => probe::file_systems(&STORES),
        false => None,
    };
    let verdicts = vec![
        version(facts),
        namespaces(facts),
        birth(facts, layout),
        mount_namespace(facts),
        idmap(facts, systems.as_ref()),
        layers(facts, systems.as_ref()),
        seal(facts),
        identity(facts),
        kill(facts, layout),
        statmount(facts),
    ];
    Section { title: "kernel", verdicts }
}

fn version(facts: &Facts) -> Verdict {
    let about = ("kernel.version", "kernel");
    let fact = format!("Linux {}", facts.release);
    match facts.since(5, 12) {
        true => Verdict::new(about, Good, fact, "dayfly needs 5.12 (mount_setattr)"),
        false => Verdict::new(about, Error, fact, "too old: dayfly cannot start containers here")
            .fix("boot Linux 5.12 or newer"),
    }
}

fn namespaces(facts: &Facts) -> Verdict {
    let about = ("kernel.namespaces", "namespaces");
    let there = facts.names("/proc/self/ns");
    if there.is_empty() {
        return Verdict::new(about, Note, "not known", "/proc/self/ns can't be read");
    }
    let missing: Vec<&str> =
        NAMESPACES.into_iter().filter(|kind| !there.iter().any(|name| name == kind)).collect();
    match missing.as_slice() {
        [] => Verdict::new(about, Good, "all eight kinds", "whatever a configuration asks for"),
        ["time"] => Verdict::new(
            about,
            Note,
            "all but time",
            "time offsets in configurations are refused; few use them",
        ),
        missing => Verdict::new(
            about,
            Error,
            format!("no {}", missing.join(", ")),
            "containers that ask for these can't start",
        )
        .fix("boot a kernel with CONFIG_NAMESPACES and each CONFIG_*_NS"),
    }
}

/// Checks how init enters its cgroup.
fn birth(facts: &Facts, layout: &Layout) -> Verdict {
    let about = ("kernel.birth", "way into the cgroup");
    let known = match facts.is_live() {
        true => sys::probe::clone_into_cgroup(),
        false => facts.since(5, 7),
    };
    // Init writes `0` to `tasks`. A write to `cgroup.procs`, or of a pid, would sometimes wait for an RCU grace period.
    let moves = match facts.since(5, 5) {
        true => "each start moves its init, as a thread: no grace period",
        false => "each start moves its init: an RCU grace period now and then",
    };
    match (known, layout.unified.is_some()) {
        (true, true) if layout.mode() == Mode::V2 => {
            Verdict::new(about, Good, "CLONE_INTO_CGROUP available", "no start moves a process")
        }
        (true, true) => Verdict::new(about, Note, "born in v2, moved in v1 (tasks)", moves),
        (true, false) => Verdict::new(about, Note, "moved (tasks)", moves),
        (false, _) => Verdict::new(about, Warning, "moved (no clone3 into cgroup)", moves)
            .fix("boot Linux 5.7 or newer"),
    }
}

fn mount_namespace(facts: &Facts) -> Verdict {
    let about = ("kernel.mount_namespace", "mount namespace");
    let newer = facts.is_live() && probe::open_tree_namespace();
    let why = "one mount is copied, regardless of the number on the host";
    let verdict = Verdict::new(about, Good, "copied from a blank namespace", why);
    verdict.figure("open_tree_namespace", newer)
}

fn idmap(facts: &Facts, systems: Option<&FileSystems>) -> Verdict {
    let about = ("kernel.idmap", "id-mapped mounts");
    let why = "containers with ids of their own share their layers";
    match systems {
        Some(FileSystems { idmap: Some((place, true)), .. }) => {
            Verdict::new(about, Good, format!("work in {place}"), why)
        }
        Some(FileSystems { idmap: Some((place, false)), .. }) => Verdict::new(
            about,
            Warning,
            format!("not in {place}"),
            "its file system can't: a container with ids of its own needs a copy of each layer",
        )
        .fix("keep images on ext4, xfs or btrfs, or boot a newer kernel"),
        _ if facts.is_live() => Verdict::new(about, Note, "not tried", "to try them needs root"),
        _ if facts.since(5, 12) => Verdict::new(about, Good, "by its version", why),
        _ => Verdict::new(about, Warning, "none", "layers are copied for each range of ids")
            .fix("boot Linux 5.12 or newer"),
    }
}

fn layers(facts: &Facts, systems: Option<&FileSystems>) -> Verdict {
    let about = ("kernel.layers", "layers of an image");
    let by_version = || match facts.version {
        version if version >= (6, 15) => Layers::ByDescriptor,
        version if version >= (6, 7) => Layers::ByName,
        version if version >= (5, 19) => Layers::Attached,
        _ => Layers::Copied,
    };
    let rung = match systems {
        Some(systems) => systems.layers,
        None if facts.is_live() => {
            return Verdict::new(about, Note, "not tried", "to try them needs root");
        }
        None => by_version(),
    };
    let verdict = match rung {
        Layers::ByDescriptor => Verdict::new(
            about,
            Good,
            "by descriptor (lowerdir+)",
            "any number of layers, no entry in the host's mount table",
        ),
        Layers::ByName => Verdict::new(
            about,
            Good,
            "by name below /proc/self/fd (lowerdir+)",
            "any number of layers, no entry in the host's mount table",
        ),
        Layers::Attached => Verdict::new(
            about,
            Note,
            "below one attached parent (lowerdir)",
            "one entry in the host's mount table while a start is under way",
        )
        .fix("Linux 6.7 needs no entry, Linux 6.15 uses descriptors"),
        Layers::Copied => Verdict::new(
            about,
            Warning,
            "copied where ids differ",
            "overlayfs does not support id-mapped layers here",
        )
        .fix("boot Linux 5.19 or newer"),
    };
    let rung = match rung {
        Layers::ByDescriptor => "descriptor",
        Layers::ByName => "name",
        Layers::Attached => "attached",
        Layers::Copied => "copied",
    };
    verdict.figure("rung", rung)
}

/// Checks how the runtime protects its own binary from containers (CVE-2019-5736).
fn seal(facts: &Facts) -> Verdict {
    let about = ("kernel.seal", "shield of the runtime");
    if !facts.is_live() {
        let fact = "not known of another host";
        return Verdict::new(about, Note, fact, "depends on where dayfly is installed");
    }
    let own = std::env::current_exe().unwrap_or_default();
    let runtime = own.with_file_name("dayfly");
    if probe::on_read_only_mount(&runtime) {
        let fact = "installed on a read-only mount";
        return Verdict::new(about, Good, fact, "nothing to do on a start");
    }
    if probe::image_can_move() {
        let fact = "moved to a read-only copy (PR_SET_MM_MAP)";
        return Verdict::new(about, Good, fact, "70 µs per start; 0 on a read-only mount");
    }
    Verdict::new(
        about,
        Warning,
        "a second execve",
        "the kernel is built without CONFIG_CHECKPOINT_RESTORE: 0.2 ms a start",
    )
    .fix("install dayfly on a read-only mount")
}

fn identity(facts: &Facts) -> Verdict {
    let about = ("kernel.pidfd", "identity of a process");
    let inode = match facts.is_live() {
        true => probe::pidfd_inode(),
        false => facts.since(6, 9),
    };
    match inode {
        true => Verdict::new(about, Good, "inode of its pidfd", "a pid used again is told apart"),
        false => Verdict::new(
            about,
            Note,
            "pid and start time",
            "a pid reused within 10 ms looks the same; Linux 6.9 distinguishes it",
        ),
    }
}

fn kill(facts: &Facts, layout: &Layout) -> Verdict {
    let about = ("kernel.cgroup_kill", "end of a cgroup");
    let child = layout.unified.as_ref().and_then(|top| {
        let names = facts.names(top).into_iter();
        names
            .map(|name| format!("{top}/{name}"))
            .find(|path| facts.has(&format!("{path}/cgroup.procs")))
    });
    let whole = match &child {
        Some(child) => facts.has(&format!("{child}/cgroup.kill")),
        None => layout.unified.is_some() && facts.since(5, 14),
    };
    match (whole, layout.unified.is_some()) {
        (true, _) => Verdict::new(about, Good, "cgroup.kill", "all of a container at once"),
        (false, true) => Verdict::new(
            about,
            Note,
            "a signal for each process",
            "delete takes longer with many processes",
        )
        .fix("Linux 5.14 has cgroup.kill"),
        (false, false) => Verdict::new(
            about,
            Note,
            "the processes are frozen, then each gets a signal",
            "cgroup v1 has no cgroup.kill",
        ),
    }
}

fn statmount(facts: &Facts) -> Verdict {
    let about = ("kernel.statmount", "statmount");
    let there = match facts.is_live() {
        true => sys::probe::statmount(),
        false => facts.since(6, 8),
    };
    let why = "monitors can query single mounts; a start queries none";
    match there {
        true => Verdict::new(about, Good, "there", why),
        false => Verdict::new(
            about,
            Note,
            "not there (Linux 6.8)",
            "monitors read the mount table as a whole",
        ),
    }
}
