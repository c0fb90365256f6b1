//! Containers of an unprivileged user: id mappings, the whole life cycle, and what is refused.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::user::{self, User, can_be};
use dayfly_tests::wait;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

pub mod cgroups;
pub mod nested;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(spec_just_works).needs(can_be),
    case!(single_id).needs(can_be),
    case!(ranges).needs(can_be),
    case!(ranges_in_the_plan).needs(can_be).unlike_runc(),
    case!(life).needs(can_be),
    case!(exec_enters_everything).needs(can_be),
    case!(oom_score).needs(can_be),
    case!(binds_and_devices).needs(can_be),
    case!(host_network).needs(can_be).unlike_runc(),
    case!(hooks).needs(can_be),
    case!(hooks_enter_namespaces).needs(can_be),
    case!(untraceable).needs(can_be).unlike_runc(),
    case!(runs_from_a_sealed_copy).needs(can_be).unlike_runc(),
    case!(helper_missing).needs(can_be).unlike_runc(),
    case!(helper_refuses).needs(can_be).unlike_runc(),
    case!(no_new_privileges).needs(can_be).unlike_runc(),
    case!(refused).needs(can_be).unlike_runc(),
    case!(groups_kept).needs(can_be).unlike_runc(),
    case!(groups_kept_by_root).unlike_runc(),
    case!(state_root).needs(can_be).unlike_runc(),
    case!(somebody_else).needs(can_be).unlike_runc(),
    case!(rootless_option).needs(can_be).unlike_runc(),
];

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn spec_just_works(bed: &Bed) {
    let user = User::new(bed);
    let c = user.plain().make();
    fs::remove_file(c.bundle.join("config.json")).expect("remove config");
    user.bed.call(&["spec", "--rootless"]).dir(&c.bundle).run().ok();
    let path = c.bundle.join("config.json");
    let mut config: Value =
        serde_json::from_slice(&fs::read(&path).expect("read config")).expect("parse config");
    config["process"]["terminal"] = json!(false);
    config["process"]["args"] = json!(["/bin/sh", "-c", "id -u; cat /proc/self/uid_map"]);
    fs::write(&path, config.to_string()).expect("write config");
    let outcome = c.run().ok();
    assert_eq!(words(&outcome.stdout), ["0", "0", &user.uid.to_string(), "1"]);
}

fn single_id(bed: &Bed) {
    let user = User::new(bed);
    let script = "cat /proc/self/gid_map /proc/self/setgroups; touch /tmp/mine";
    let c = user.single().sh(script).make();
    let outcome = c.run().ok();
    assert_eq!(words(&outcome.stdout), ["0", &user.uid.to_string(), "1", "deny"]);
    assert_eq!(user::owner(&c.bundle.join("rootfs/tmp/mine")), user.uid);
}

fn ranges(bed: &Bed) {
    let user = User::new(bed);
    let script = "cat /proc/self/uid_map /proc/self/setgroups; id -u; touch /tmp/theirs";
    let c = user.ranges().set("/process/user", json!({ "uid": 1000, "gid": 1000 })).sh(script);
    let c = c.make();
    let outcome = c.run().ok();
    let (uid, first) = (user.uid.to_string(), user.first.to_string());
    assert_eq!(
        words(&outcome.stdout),
        ["0", &uid, "1", "1", &first, "65536", "allow", "1000"],
        "{outcome}"
    );
    assert_eq!(user::owner(&c.bundle.join("rootfs/tmp/theirs")), user.first + 999);
}

fn ranges_in_the_plan(bed: &Bed) {
    let user = User::new(bed);
    let plan = |c: &Container<'_>| {
        let bundle = c.bundle.to_string_lossy().into_owned();
        user.bed.call(&["plan", &bundle]).run().ok().stdout
    };
    let text = plan(&user.ranges().make());
    assert!(text.contains(&format!("map ids through newuidmap 0 {} 1, 1", user.uid)), "{text}");
    let text = plan(&user.single().make());
    assert!(text.contains(&format!("map own id 0 {} 1", user.uid)), "{text}");
}

fn life(bed: &Bed) {
    for delegated in [false, true] {
        let user = if delegated { User::delegated(bed) } else { User::new(bed) };
        let c = user.ranges().make();
        c.create().ok();
        assert_eq!(c.status(), "created");
        assert_eq!(user::owner(&user.bed.root().join(&c.id)), user.uid);
        c.start().ok();
        assert_eq!(c.status(), "running");
        assert_eq!(c.sh("echo inside").ok().stdout, "inside\n");
        let list = user.bed.call(&["list", "--quiet"]).run().ok();
        assert_eq!(list.lines(), [c.id.as_str()]);
        c.delete().fails("is not stopped: running");
        c.kill("KILL").ok();
        c.wait_status("stopped");
        c.delete().ok();
        assert!(!user.bed.root().join(&c.id).exists());
        // A running container is killed and removed.
        let c = user.ranges().make().detached();
        c.delete_force().ok();
    }
}

fn exec_enters_everything(bed: &Bed) {
    let user = User::new(bed);
    let c = user.ranges().set("/process/user", json!({ "uid": 7, "gid": 8 })).make().detached();
    let (pid, kinds) = (c.pid(), ["user", "pid", "mnt", "net", "ipc", "uts"]);
    let links = |of: &str| {
        let link = |kind| fs::read_link(format!("/proc/{of}/ns/{kind}")).expect("namespace");
        kinds.map(link).map(|link| link.to_string_lossy().into_owned()).join("\n")
    };
    let script = "for kind in user pid mnt net ipc uts; do readlink /proc/self/ns/$kind; done";
    assert_eq!(c.sh(script).ok().stdout.trim(), links(&pid.to_string()));
    assert_eq!(c.sh("id -u; id -g").ok().stdout, "7\n8\n");
    let root = c.exec_with(&["--user", "0:0"], &["/bin/sh", "-c", "id -u; echo x >/tmp/root"]);
    assert_eq!(root.ok().stdout, "0\n");
    assert_eq!(user::owner(&c.bundle.join("rootfs/tmp/root")), user.uid);
    c.exec(&["/bin/sh", "-c", "exit 9"]).exits(9);
    c.exec(&["/no/such"]).exits(255);
}

fn oom_score(bed: &Bed) {
    let user = User::new(bed);
    let score = |score: i32| user.single().set("/process/oomScoreAdj", json!(score));
    let c = score(300).make().detached();
    let read = |pid: &str| fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("score");
    assert_eq!(read(&c.pid().to_string()), "300\n");
    assert_eq!(c.sh("cat /proc/self/oom_score_adj").ok().stdout, "300\n");
    let outcome = score(-900).make().run();
    assert!(outcome.code() == 1 && outcome.stderr.contains("oom_score_adj"), "{outcome}");
}

fn binds_and_devices(bed: &Bed) {
    let user = User::new(bed);
    let shared = user.bed.dir.join("shared");
    fs::create_dir(&shared).expect("make shared");
    fs::write(shared.join("file"), "from outside\n").expect("write shared");
    let script = "cat /mnt/file; touch /mnt/new 2>/dev/null || echo read-only; \
                  head -c 3 /dev/zero | wc -c; mknod /tmp/x c 1 3 2>/dev/null || echo no nodes";
    let c = user.single().mount("bind", &shared.to_string_lossy(), "/mnt", &["rbind", "ro"]);
    let outcome = c.sh(script).make().run().ok();
    assert_eq!(outcome.stdout, "from outside\nread-only\n3\nno nodes\n");
}

fn host_network(bed: &Bed) {
    let user = User::new(bed);
    let bundle = || user.single().without_namespace("network").sh("ls /sys/class/net");
    // Mounting sysfs requires owning the network namespace; if the caller does not own it, the host's sysfs is
    // bind-mounted, as crun does.
    assert!(bundle().make().run().ok().lines().contains(&"lo"));
    let write = user.single().without_namespace("network").sh("grep ' /sys ' /proc/self/mountinfo");
    assert!(write.make().run().ok().stdout.contains(" ro,"));
    let sys = json!({ "destination": "/sys", "type": "none", "source": "/sys",
        "options": ["rbind", "nosuid", "noexec", "nodev", "ro"] });
    bundle().remount("/sys", sys).make().run().ok();
}

fn hooks(bed: &Bed) {
    let user = User::new(bed);
    let out = user.bed.dir.join("hooks");
    let hook = |name: &str| {
        let script = format!("cat >/dev/null; echo {name} $(id -u) >>{}", out.display());
        json!([{ "path": "/bin/sh", "args": ["sh", "-c", script] }])
    };
    let bundle = ["createRuntime", "poststart", "poststop"]
        .into_iter()
        .fold(user.ranges(), |bundle, name| bundle.set(&format!("/hooks/{name}"), hook(name)));
    bundle.args(&["/bin/true"]).make().run().ok();
    let uid = user.uid;
    let text = fs::read_to_string(&out).expect("hooks");
    assert_eq!(text, format!("createRuntime {uid}\npoststart {uid}\npoststop {uid}\n"));
}

/// A hook that sets up a network (slirp4netns, pasta) opens init's namespaces as the user.
fn hooks_enter_namespaces(bed: &Bed) {
    let user = User::new(bed);
    let out = user.bed.dir.join("namespaces");
    let state = r#"pid=$(sed 's/.*"pid": *\([0-9]*\).*/\1/')"#;
    let script = format!("{state}; readlink /proc/$pid/ns/net /proc/$pid/root >>{}", out.display());
    let hook = json!([{ "path": "/bin/sh", "args": ["sh", "-ec", script] }]);
    let kinds = ["prestart", "createRuntime", "poststart"];
    for bundle in [user.single(), user.ranges()] {
        let bundle = kinds
            .iter()
            .fold(bundle, |bundle, kind| bundle.set(&format!("/hooks/{kind}"), hook.clone()));
        bundle.args(&["sleep", "1"]).make().run().ok();
    }
    let text = fs::read_to_string(&out).expect("hooks");
    assert_eq!(text.matches("net:[").count(), 6, "{text}");
}

/// Init is dumpable while its ids are mapped, but is no longer dumpable when it executes the container's program.
fn untraceable(bed: &Bed) {
    let user = User::new(bed);
    for bundle in [user.single(), user.ranges()] {
        let c = bundle.make();
        c.create().ok();
        assert_eq!(user::owner(Path::new(&format!("/proc/{}/environ", c.pid()))), 0);
        c.delete_force().ok();
    }
}

/// Attacks a runtime that belongs to the user, as in CVE-2019-5736.
fn runs_from_a_sealed_copy(bed: &Bed) {
    let user = User::new(bed);
    let c = user.single().make();
    let running = c.bundle_call("run", &[]).spawn();
    wait::until_true("a container", || c.exists());
    c.wait_status("running");
    let exe = fs::read_link(format!("/proc/{}/exe", running.pid().as_raw_nonzero())).expect("exe");
    assert!(exe.to_string_lossy().starts_with("/memfd:"), "{}", exe.display());
    c.kill("KILL").ok();
    let _ = running.wait();
}

fn helper_missing(bed: &Bed) {
    let user = User::new(bed);
    let c = user.ranges().make();
    let call = c.bundle_call("run", &[]).env("WITH", "PATH=/nowhere");
    call.run().fails("newuidmap, which is not in $PATH: install the package uidmap");
}

fn helper_refuses(bed: &Bed) {
    let user = User::new(bed);
    let foreign = json!([{ "containerID": 0, "hostID": 1, "size": 10 }]);
    let c = user.ranges().set("/linux/uidMappings", foreign).make();
    let outcome = c
        .run()
        .fails("map ids through newuidmap: newuidmap: uid range [0-10) -> [1-11) not allowed");
    assert!(outcome.stderr.contains("/etc/subuid"), "{outcome}");
    let foreign = json!([{ "containerID": 0, "hostID": 1, "size": 10 }]);
    let c = user.ranges().set("/linux/gidMappings", foreign).make();
    c.run().fails("map ids through newgidmap: newgidmap: gid range [0-10) -> [1-11) not allowed");
}

fn no_new_privileges(bed: &Bed) {
    let user = User::new(bed);
    let setpriv = user.setpriv("--clear-groups --no-new-privs");
    let call = |c: &Container<'_>| c.bundle_call("run", &[]).env("SETPRIV", &setpriv).run();
    call(&user.ranges().make()).fails("no_new_privs");
    assert_eq!(call(&user.single().sh("id -u").make()).ok().stdout, "0\n");
}

fn refused(bed: &Bed) {
    let user = User::new(bed);
    user.plain()
        .make()
        .run()
        .fails("rootless container requires user namespaces: \"dayfly spec --rootless\" writes");
    for (field, what) in [("/linux/uidMappings", "uid"), ("/linux/gidMappings", "gid")] {
        let text = format!("user namespaces enabled, but no {what} mappings found");
        user.single().unset(field).make().run().fails(&text);
    }
    let with = |pointer: &str, value: Value| user.ranges().set(pointer, value).make().run();
    with("/process/user/additionalGids", json!([10]))
        .fails("cannot set any additional groups in a rootless container");
    with("/process/user/uid", json!(70_000))
        .fails("cannot setuid to unmapped uid 70000 in user namespace");
    with("/process/user/gid", json!(70_000))
        .fails("cannot setgid to unmapped gid 70000 in user namespace");
    with("/linux/netDevices", json!({ "eth0": {} }))
        .fails("network devices are not supported for rootless containers");
    with("/process/rlimits", json!([{ "type": "RLIMIT_NOFILE", "hard": 1 << 28, "soft": 10 }]))
        .fails("error setting rlimit");
    user.single()
        .mount("tmpfs", "tmpfs", "/mnt", &["gid=5"])
        .make()
        .run()
        .fails("cannot specify gid=5 mount option for rootless container");
    user.single()
        .mount("bind", "/etc", "/mnt", &["bind", "idmap"])
        .make()
        .run()
        .fails("id-mapped mounts are not supported for rootless containers");
    let c = user.ranges().make().detached();
    c.exec_with(&["--additional-gids", "10"], &["/bin/true"]).exits(255);
}

const KEEP: &str = "/annotations";

/// Returns the supplementary groups of a process, as the host sees them.
fn groups(pid: i32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    line.unwrap_or_default().trim().to_owned()
}

/// Tests crun's annotation, with which `podman run --group-add keep-groups` keeps the caller's groups.
fn groups_kept(bed: &Bed) {
    let user = User::new(bed);
    let grouped = user.setpriv("--groups=4321,4322");
    let kept = || json!({ "run.oci.keep_original_groups": "1" });
    for (bundle, annotations, expected) in [
        (user.ranges(), kept(), "4321 4322"),
        (user.single(), kept(), "4321 4322"),
        (user.ranges().set("/process/user/additionalGids", json!([10])), kept(), "4321 4322"),
        // With ranges of ids the groups could be dropped, but the annotation keeps them.
        (user.ranges(), json!({ "run.oci.keep_original_groups": "0" }), "4321 4322"),
    ] {
        let c = bundle.set(KEEP, annotations).make();
        c.bundle_call("run", &["--detach"]).env("SETPRIV", &grouped).run().ok();
        assert_eq!(groups(c.pid()), expected);
        // The same holds for exec.
        let script = "grep Groups /proc/self/status";
        let call = c.id_call("exec", &["--additional-gids", "10"], &["sh", "-c", script]);
        let call = call.env("SETPRIV", &grouped).run();
        if call.code() == 0 {
            assert_eq!(call.stdout.matches("65534").count(), 2, "{call}");
        }
    }
}

fn groups_kept_by_root(bed: &Bed) {
    let run = |value: Option<&str>| {
        let bundle = bed.bundle().set("/process/user/additionalGids", json!([10]));
        let bundle = match value {
            Some(value) => bundle.set(KEEP, json!({ "run.oci.keep_original_groups": value })),
            None => bundle,
        };
        let c = bundle.make();
        let runtime = bed.runtime().to_string_lossy().into_owned();
        let (root, dir) = (bed.root(), c.bundle.to_string_lossy().into_owned());
        let arguments = ["--groups", "4321,4322", &runtime, "--root", &root.to_string_lossy()];
        let arguments = [&arguments[..], &["run", "--detach", "--bundle", &dir, &c.id]].concat();
        bed.program("setpriv", &arguments).run().ok();
        let of_init = groups(c.pid());
        let script = "grep Groups /proc/self/status";
        let exec = ["--groups", "7", &runtime, "--root", &root.to_string_lossy(), "exec", &c.id];
        let exec = [&exec[..], &["sh", "-c", script]].concat();
        let of_exec = bed.program("setpriv", &exec).run().ok().stdout;
        (of_init, of_exec.split_once('\t').expect("groups").1.trim().to_owned())
    };
    assert_eq!(run(None), ("10".to_owned(), "10".to_owned()));
    assert_eq!(run(Some("0")), ("10".to_owned(), "10".to_owned()));
    assert_eq!(run(Some("1")), ("4321 4322".to_owned(), "7".to_owned()));
}

fn state_root(bed: &Bed) {
    let user = User::new(bed);
    let c = user.single().make();
    let bundle = c.bundle.to_string_lossy().into_owned();
    user.bed.call_bare(&["create", "--bundle", &bundle, &c.id]).run().ok();
    let root = user.bed.dir.join("run/dayfly");
    assert!(root.join(&c.id).join("record").exists());
    assert_eq!(user::owner(&root), user.uid);
    user.bed.call_bare(&["delete", "--force", &c.id]).run().ok();
    assert!(!root.join(&c.id).exists());
    // Without the variable, the state root is that of root, as with runc.
    let args = ["create", "--bundle", &bundle, &c.id];
    let outcome = user.bed.call_bare(&args).env("WITH", "XDG_RUNTIME_DIR=").run();
    assert!(outcome.code() == 1 && outcome.stderr.contains("/run/dayfly"), "{outcome}");
    assert!(outcome.stderr.contains("set XDG_RUNTIME_DIR or give --root"), "{outcome}");
}

fn somebody_else(bed: &Bed) {
    let user = User::new(bed);
    let c = user.single().make().detached();
    let uid = "20399";
    let id = c.id.as_str();
    let root = user.bed.root().to_string_lossy().into_owned();
    let runtime = user.bed.runtime().with_file_name("dayfly").to_string_lossy().into_owned();
    for command in [
        &["state", id][..],
        &["kill", id, "KILL"],
        &["exec", id, "/bin/true"],
        &["delete", "--force", id],
    ] {
        let mut args =
            vec!["--reuid", uid, "--regid", uid, "--clear-groups", &runtime, "--root", &root];
        args.extend(command);
        let outcome = bed.program("setpriv", &args).run();
        assert_ne!(outcome.code(), 0, "{outcome}");
        assert!(outcome.stderr.contains("permission denied"), "{outcome}");
    }
    assert_eq!(c.status(), "running");
}

fn rootless_option(bed: &Bed) {
    let user = User::new(bed);
    let call = |value: &str| {
        let c = user.single().sh("id -u").make();
        let bundle = c.bundle.to_string_lossy().into_owned();
        let root = user.bed.root().to_string_lossy().into_owned();
        let args = ["--root", &root, "--rootless", value, "run", "--bundle", &bundle, &c.id];
        user.bed.call_bare(&args).run()
    };
    for value in ["auto", "true"] {
        assert_eq!(call(value).ok().stdout, "0\n");
    }
    // With `false` the caller counts as root, but may not make a cgroup where root's containers have theirs.
    let outcome = call("false");
    assert!(outcome.code() == 1 && outcome.stderr.contains("permission denied"), "{outcome}");
    let outcome = call("maybe");
    assert!(outcome.stderr.contains("must be true, false or auto"), "{outcome}");
}
