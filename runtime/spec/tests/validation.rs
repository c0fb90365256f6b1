//! Errors of validation and their messages.
use dayfly_spec::{Process, Spec, validate, validate_process};

/// A small valid configuration, with every namespace except user and time.
const GOOD: &str = r#"{
    "ociVersion": "1.0.2",
    "root": {"path": "rootfs"},
    "process": {"cwd": "/", "args": ["true"]},
    "linux": {"namespaces": [{"type": "pid"}, {"type": "network"}, {"type": "mount"},
        {"type": "ipc"}, {"type": "uts"}, {"type": "cgroup"}]}
}"#;

/// Validates `GOOD` with the values of `patch` merged in; a null removes a property.
fn said(patch: &str) -> Result<(), String> {
    let mut config = serde_json::from_str(GOOD).expect("GOOD");
    merge(&mut config, serde_json::from_str(patch).expect(patch));
    let text = config.to_string();
    let spec = Spec::parse(&text).map_err(|error| error.message)?;
    validate(&spec).map_err(|error| error.to_string())
}

fn merge(value: &mut serde_json::Value, patch: serde_json::Value) {
    match (value, patch) {
        (serde_json::Value::Object(old), serde_json::Value::Object(new)) => {
            for (key, patch) in new {
                merge(old.entry(key).or_insert(serde_json::Value::Null), patch);
            }
        }
        (value, patch) => *value = patch,
    }
}

#[track_caller]
fn refused(patch: &str, message: &str) {
    assert_eq!(said(patch), Err(message.into()), "{patch}");
}

#[track_caller]
fn accepted(patch: &str) {
    assert_eq!(said(patch), Ok(()), "{patch}");
}

#[test]
fn version() {
    for version in ["1.0.0", "1.0.0-rc5", "1.0.2-dev", "1.3.0", "1.10.3", "1.2.0+git.1"] {
        accepted(&format!(r#"{{"ociVersion": "{version}"}}"#));
    }
    for version in
        ["", "1", "1.0", "0.9.0", "2.0.0", "1.0.0.0", "1.0.0-", "1.0.x", "v1.0.0", "1.0.0-a b"]
    {
        refused(
            &format!(r#"{{"ociVersion": "{version}"}}"#),
            &format!("ociVersion \"{version}\" is not supported: it must be 1.0.0 or a later 1.x"),
        );
    }
}

#[test]
fn root() {
    refused(r#"{"root": null}"#, "root must be specified");
    refused(r#"{"root": {"path": ""}}"#, "root.path must not be empty");
}

#[test]
fn process() {
    accepted(r#"{"process": null}"#);
    accepted(r#"{"linux": null}"#);
    let refused = |patch: &str, message| refused(&format!(r#"{{"process": {patch}}}"#), message);
    refused(r#"{"cwd": ""}"#, "Cwd property must not be empty");
    refused(r#"{"cwd": "tmp"}"#, "Cwd must be an absolute path");
    refused(r#"{"args": []}"#, "args must not be empty");
    refused(r#"{"env": ["A"]}"#, "invalid environment variable: missing '='");
    refused(r#"{"env": ["=A"]}"#, "invalid environment variable: name cannot be empty");
    refused(r#"{"user": {"umask": 512}}"#, "process.user.umask 0o1000 is out of range, 0 to 0o777");
    refused(r#"{"oomScoreAdj": 1001}"#, "process.oomScoreAdj 1001 is out of range, -1000 to 1000");
    refused(r#"{"user": {"uid": -1}}"#, "invalid value: integer `-1`, expected u32");
    refused(
        r#"{"user": {"gid": 4294967296}}"#,
        "invalid value: integer `4294967296`, expected u32",
    );
    accepted(r#"{"process": {"env": ["A="], "oomScoreAdj": -1000, "user": {"umask": 511}}}"#);
}

#[test]
fn process_of_exec() {
    let process = Process::parse(r#"{"cwd": "/", "args": ["sh"], "scheduler": {}}"#).unwrap();
    let message = validate_process(&process).unwrap_err().to_string();
    assert_eq!(message, "scheduler policy is required");
}

#[test]
fn rlimits() {
    let rlimits = |list: &str| format!(r#"{{"process": {{"rlimits": {list}}}}}"#);
    refused(
        &rlimits(r#"[{"type": "RLIMIT_X", "hard": 1, "soft": 1}]"#),
        "wrong rlimit value: RLIMIT_X",
    );
    refused(
        &rlimits(r#"[{"type": "RLIMIT_AS"}, {"type": "RLIMIT_CPU"}, {"type": "RLIMIT_AS"}]"#),
        "duplicated rlimit RLIMIT_AS",
    );
    refused(
        &rlimits(r#"[{"type": "RLIMIT_AS", "hard": 1, "soft": 2}]"#),
        "rlimit RLIMIT_AS: soft limit is above the hard limit",
    );
    let infinite = u64::MAX;
    accepted(&rlimits(&format!(
        r#"[{{"type": "RLIMIT_AS", "hard": {infinite}, "soft": {infinite}}}]"#
    )));
}

#[test]
fn scheduling() {
    let process = |patch: &str| format!(r#"{{"process": {patch}}}"#);
    let scheduler = |patch: &str| process(&format!(r#"{{"scheduler": {patch}}}"#));
    for good in [
        r#"{"policy": "SCHED_BATCH", "nice": 19}"#,
        r#"{"policy": "SCHED_FIFO", "priority": 99, "flags": ["SCHED_FLAG_RESET_ON_FORK"]}"#,
        r#"{"policy": "SCHED_DEADLINE", "runtime": 1, "deadline": 2, "period": 3}"#,
    ] {
        accepted(&scheduler(good));
    }
    refused(&scheduler("{}"), "scheduler policy is required");
    refused(&scheduler(r#"{"policy": "x"}"#), "invalid scheduler policy: x");
    refused(
        &scheduler(r#"{"policy": "SCHED_OTHER", "nice": -21}"#),
        "invalid scheduler.nice: -21 when scheduler.policy is SCHED_OTHER",
    );
    refused(
        &scheduler(r#"{"policy": "SCHED_OTHER", "priority": 1}"#),
        "scheduler.priority can only be specified for SchedFIFO or SchedRR policy",
    );
    refused(
        &scheduler(r#"{"policy": "SCHED_RR", "period": 1}"#),
        "scheduler runtime/deadline/period can only be specified for SchedDeadline policy",
    );
    refused(&scheduler(r#"{"policy": "SCHED_RR", "flags": ["x"]}"#), "invalid scheduler flag: x");
    let priority = |patch: &str| process(&format!(r#"{{"ioPriority": {patch}}}"#));
    accepted(&priority(r#"{"class": "IOPRIO_CLASS_RT", "priority": 7}"#));
    refused(&priority("{}"), "invalid ioPriority.Class: \"\"");
    refused(
        &priority(r#"{"class": "IOPRIO_CLASS_RT", "priority": -1}"#),
        "invalid ioPriority.Priority: -1",
    );
    let affinity = |patch: &str| process(&format!(r#"{{"execCPUAffinity": {patch}}}"#));
    accepted(&affinity(r#"{"initial": "0-3, 7", "final": ""}"#));
    refused(&affinity(r#"{"final": ","}"#), "bad CPUAffinity.Final: no members found in set \",\"");
}

#[test]
fn execution() {
    let policy = |patch: &str| format!(r#"{{"linux": {{"memoryPolicy": {patch}}}}}"#);
    accepted(&policy(r#"{"mode": "MPOL_PREFERRED"}"#));
    accepted(&policy(r#"{"mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_STATIC_NODES"]}"#));
    refused(&policy("{}"), "invalid memory policy mode \"\"");
    refused(
        &policy(r#"{"mode": "MPOL_BIND"}"#),
        "memory policy mode requires at least one node but got 0",
    );
    refused(
        &policy(r#"{"mode": "MPOL_LOCAL", "nodes": "0-1"}"#),
        "memory policy mode requires 0 nodes but got 2",
    );
    refused(
        &policy(r#"{"mode": "MPOL_BIND", "nodes": "1-0"}"#),
        "invalid memory policy nodes \"1-0\": invalid range: 1-0",
    );
    let personality = |patch: &str| format!(r#"{{"linux": {{"personality": {patch}}}}}"#);
    accepted(&personality(r#"{"domain": "LINUX32", "flags": []}"#));
    refused(&personality("{}"), "invalid personality domain ");
    refused(
        &personality(r#"{"domain": "LINUX", "flags": ["x"]}"#),
        "linux.personality: flag \"x\" is not supported, nor is any other",
    );
}

#[test]
fn time_offsets() {
    let time = |namespace: &str, offsets: &str| {
        format!(r#"{{"linux": {{"namespaces": [{namespace}], "timeOffsets": {offsets}}}}}"#)
    };
    let new = r#"{"type": "time"}"#;
    accepted(&time(new, "{}"));
    accepted(&time(new, r#"{"monotonic": {"secs": -5}, "boottime": {"nanosecs": 999999999}}"#));
    refused(
        &time("", r#"{"monotonic": {"secs": 1}}"#),
        "time namespace offsets specified, but time namespace isn't enabled in the config",
    );
    refused(
        &time(r#"{"type": "time", "path": "/t"}"#, r#"{"monotonic": {"secs": 1}}"#),
        "time namespace enabled, but both namespace path and time offsets specified \
         -- you may only provide one",
    );
    refused(
        &time(new, r#"{"realtime": {}}"#),
        "linux.timeOffsets: \"realtime\" is neither monotonic nor boottime",
    );
    refused(
        &time(new, r#"{"boottime": {"nanosecs": 1000000000}}"#),
        "linux.timeOffsets.boottime: nanosecs must be below 1000000000",
    );
}

#[test]
fn namespaces() {
    let linux = |linux: &str| format!(r#"{{"linux": {linux}}}"#);
    refused(
        &linux(r#"{"namespaces": [{"type": "pid"}, {"type": "pid"}]}"#),
        "malformed spec file: duplicated ns \"pid\"",
    );
    refused(&linux(r#"{"namespaces": [{"type": "net"}]}"#), "namespace \"net\" does not exist");
    refused(
        &linux(r#"{"namespaces": [{"type": "pid", "path": "x"}]}"#),
        "pid namespace: path \"x\" is not an absolute path",
    );
    accepted(&linux(r#"{"namespaces": [{"type": "network", "path": "/proc/1/ns/net"}]}"#));
    refused(
        &linux(r#"{"namespaces": [{"type": "pid"}], "readonlyPaths": ["/proc"]}"#),
        "unable to restrict sys entries without a private MNT namespace",
    );
    let hidden = r#""linux": {"namespaces": []}"#;
    refused(
        &format!(r#"{{"hostname": "a", {hidden}}}"#),
        "unable to set hostname without a private UTS namespace",
    );
    refused(
        &format!(r#"{{"domainname": "a", {hidden}}}"#),
        "unable to set domainname without a private UTS namespace",
    );
    accepted(r#"{"hostname": "a", "domainname": "b"}"#);
}

#[test]
fn mappings() {
    let mapped = |size: u64, namespace: &str| {
        format!(
            r#"{{"linux": {{"namespaces": [{namespace}],
                "uidMappings": [{{"containerID": 0, "hostID": 1000, "size": {size}}}]}}}}"#
        )
    };
    accepted(&mapped(1, r#"{"type": "user", "path": "/n"}"#));
    // Mappings without a user namespace have no effect.
    accepted(&mapped(1, r#"{"type": "pid"}"#));
    let user = r#"{"type": "user"}"#;
    refused(&mapped(1, user), "user namespaces enabled, but no gid mappings found");
    refused(
        r#"{"linux": {"namespaces": [{"type": "user"}],
            "gidMappings": [{"containerID": 0, "hostID": 1000, "size": 1}]}}"#,
        "user namespaces enabled, but no uid mappings found",
    );
    let size = "linux.uidMappings: the size of a mapping must be at least 1 \
                and its ids must not exceed 4294967295";
    refused(&mapped(0, user), size);
    refused(&mapped(4_294_967_295, user), size);
    // A user namespace without mappings is valid: it gets default mappings.
    accepted(r#"{"linux": {"namespaces": [{"type": "user"}]}}"#);
}

#[test]
fn mounts() {
    let mount = |mount: &str| format!(r#"{{"mounts": [{mount}]}}"#);
    accepted(&mount(r#"{"destination": "proc", "type": "proc"}"#));
    accepted(&mount(r#"{"destination": "/a", "options": ["bind", "remount", "ro"]}"#));
    refused(&mount(r#"{"type": "proc"}"#), "mount destination must not be empty");
    refused(
        &mount(r#"{"destination": "/a", "options": ["bind"]}"#),
        "invalid mount /a: bind mount without a source",
    );
    accepted(&mount(r#"{"destination": "/a", "source": "/b", "options": ["rbind", "size=1"]}"#));
}

#[test]
fn idmapped_mounts() {
    let map = |size: u64| format!(r#"[{{"containerID": 0, "hostID": 1000, "size": {size}}}]"#);
    let both = |size| format!(r#""uidMappings": {}, "gidMappings": {0}"#, map(size));
    let mount = |kind: &str, options: &str, more: &str| {
        format!(
            r#"{{"mounts": [{{"destination": "/a", "source": "/b", "type": "{kind}",
                "options": [{options}], {more}}}]}}"#
        )
    };
    let none = r#""uidMappings": []"#;
    accepted(&mount("", r#""rbind", "ridmap""#, &both(1)));
    accepted(&mount("bind", "", &both(1)));
    let no_bind = "invalid mount /a: id-mapped mounts are only supported for bind-mounts";
    refused(&mount("tmpfs", r#""idmap""#, &both(1)), no_bind);
    refused(&mount("tmpfs", "", &both(1)), no_bind);
    let missing =
        "invalid mount /a: id-mapped mounts must have both uid and gid mappings specified";
    refused(&mount("", r#""bind", "idmap""#, none), missing);
    refused(&mount("", r#""bind""#, &format!(r#""uidMappings": {}"#, map(1))), missing);
    refused(&mount("", r#""bind""#, &format!(r#""gidMappings": {}"#, map(1))), missing);
    // An idmapped mount without mappings uses those of the container's user namespace.
    let user = r#"{"linux": {"namespaces": [{"type": "user"}]}, "#;
    let own = mount("", r#""bind", "idmap""#, none).replacen('{', user, 1);
    accepted(&own);
    let size = "mounts.uidMappings: the size of a mapping must be at least 1 \
                and its ids must not exceed 4294967295";
    refused(&mount("", r#""bind""#, &both(0)), size);
}

#[test]
fn net_devices() {
    let devices = |devices: &str| format!(r#"{{"linux": {{"netDevices": {devices}}}}}"#);
    accepted(&devices(r#"{"eth0": {}, "eth1": {"name": "web%d"}, "eth2": {"name": ""}}"#));
    for name in ["", ".", "..", "a/b", "a:b", "a b", "sixteen-bytes-it"] {
        let message = format!("invalid network device name {name:?}");
        refused(&devices(&format!(r#"{{"{name}": {{}}}}"#)), &message);
        if !name.is_empty() {
            refused(&devices(&format!(r#"{{"eth0": {{"name": "{name}"}}}}"#)), &message);
        }
    }
    refused(
        r#"{"linux": {"namespaces": [], "netDevices": {"eth0": {}}}}"#,
        "unable to move network devices without a NET namespace",
    );
}

#[test]
fn intel_rdt() {
    let rdt = |rdt: &str| format!(r#"{{"linux": {{"intelRdt": {rdt}}}}}"#);
    accepted(&rdt("{}"));
    accepted(&rdt(r#"{"closID": "", "l3CacheSchema": "", "memBwSchema": ""}"#));
    accepted(&rdt(r#"{"closID": "/", "memBwSchema": "MB:0=10", "schemata": ["L2:0=f"]}"#));
    for clos in [".", "..", "a/b", "/a", "../a"] {
        let message = format!("invalid intelRdt.ClosID {clos:?}");
        refused(&rdt(&format!(r#"{{"closID": "{clos}"}}"#)), &message);
    }
    let message = |property: &str, line: &str| {
        format!(
            "invalid intelRdt.{property} {line:?}: \
             one line is expected, and of memBwSchema that it begins with \"MB:\""
        )
    };
    refused(&rdt(r#"{"schemata": ["L3:0=f\nMB:0=10"]}"#), &message("schemata", "L3:0=f\nMB:0=10"));
    refused(&rdt(r#"{"l3CacheSchema": "L3:0=f\n"}"#), &message("l3CacheSchema", "L3:0=f\n"));
    refused(&rdt(r#"{"memBwSchema": "L3:0=f"}"#), &message("memBwSchema", "L3:0=f"));
}

#[test]
fn hooks() {
    let hook = |hook: &str| format!(r#"{{"hooks": {{"poststop": [{hook}]}}}}"#);
    accepted(&hook(r#"{"path": "/bin/true", "timeout": 1}"#));
    refused(&hook(r#"{"path": "true"}"#), "hooks.poststop: path \"true\" is not an absolute path");
    refused(
        &hook(r#"{"path": "/bin/true", "timeout": 0}"#),
        "hooks.poststop: timeout 0 is not greater than zero",
    );
}

#[test]
fn devices_and_propagation() {
    let linux = |linux: &str| format!(r#"{{"linux": {linux}}}"#);
    accepted(&linux(r#"{"devices": [{"path": "/dev/x", "type": "p"}]}"#));
    refused(
        &linux(r#"{"devices": [{"path": "/dev/x", "type": "x"}]}"#),
        "invalid device type \"x\"",
    );
    refused(&linux(r#"{"devices": [{"path": "", "type": "c"}]}"#), "device path must not be empty");
    refused(
        &linux(r#"{"devices": [{"path": "/dev/x", "type": "c", "major": -1}]}"#),
        "device /dev/x: major must be 0 to 4095, minor 0 to 1048575",
    );
    for word in [
        "private",
        "rprivate",
        "slave",
        "rslave",
        "shared",
        "rshared",
        "unbindable",
        "runbindable",
        "",
    ] {
        accepted(&linux(&format!(r#"{{"rootfsPropagation": "{word}"}}"#)));
    }
    refused(&linux(r#"{"rootfsPropagation": "ro"}"#), "rootfsPropagation=ro is not supported");
}

#[test]
fn not_done_yet() {
    for (patch, property) in [(r#"{"vm": {}}"#, "vm"), (r#"{"windows": {}}"#, "windows")] {
        refused(patch, &format!("{property} is not supported yet by dayfly"));
    }
}

#[test]
fn absent_in_another_form() {
    for patch in [
        r#"{"vm": null}"#,
        r#"{"process": {"apparmorProfile": "unconfined", "selinuxLabel": ""}}"#,
        r#"{"process": {"scheduler": null, "capabilities": null}}"#,
        r#"{"linux": {"netDevices": {}, "timeOffsets": {}, "mountLabel": "", "seccomp": null}}"#,
        r#"{"mounts": null, "hooks": null}"#,
    ] {
        accepted(patch);
    }
}

#[test]
fn capabilities_of_newer_kernels_are_fine() {
    accepted(r#"{"process": {"capabilities": {"bounding": ["CAP_NEW"]}}}"#);
}
