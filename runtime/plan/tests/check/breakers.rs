//! Plans that follow each rule, and changes that break it.

use dayfly_plan::step::{Capabilities, InitStep, Memory, ParentStep, Slot};
use dayfly_plan::{Labelled, Plan};
use rootfs::Mode;
use serde_json::json;
use sys::clone::CloneFlags;

use crate::cases::{Case, limit};

/// A rule, an input to compile, and a change of the plan that breaks the rule.
pub type Breaker = (&'static str, fn() -> Case, fn(&mut Plan));

const ALL: CloneFlags = CloneFlags::NEWNS
    .union(CloneFlags::NEWPID)
    .union(CloneFlags::NEWNET)
    .union(CloneFlags::NEWIPC)
    .union(CloneFlags::NEWUTS)
    .union(CloneFlags::NEWCGROUP);

pub const BREAKERS: &[Breaker] = &[
    ("proc-first", Case::new, |plan| after(&mut plan.parent, "open proc", "enter cgroup")),
    ("undumpable-before-sharing", Case::new, |plan| {
        after(&mut plan.parent, "clear dumpable", "clone")
    }),
    ("undumpable-before-sharing", rootless, |plan| remove(&mut plan.init, "clear dumpable")),
    ("undumpable-before-sharing", rootless, |plan| {
        after(&mut plan.parent, "clear dumpable", "admit")
    }),
    ("undumpable-before-sharing", Case::hooked_by_user, |plan| {
        after(&mut plan.init, "clear dumpable", "run hooks");
    }),
    ("maps-before-undumpable", rootless, |plan| {
        after(&mut plan.parent, "map own id", "clear dumpable")
    }),
    ("inherited-oom-score", nested, |plan| {
        after(&mut plan.parent, "inherit oom score", "clear dumpable");
    }),
    ("modules-first", labelled, |plan| after(&mut plan.parent, "require module", "enter cgroup")),
    ("cgroup-before-trees", Case::new, |plan| {
        after(&mut plan.parent, "enter cgroup", "clone tree")
    }),
    ("sources-before-mounts", Case::new, |plan| after(&mut plan.parent, "clone tree", "clone")),
    ("sources-before-mounts", rootless, |plan| after(&mut plan.init, "clone tree", "attach root*")),
    ("layers-in-order", layered, |plan| after(&mut plan.parent, "map layers", "open layers")),
    ("layers-in-order", layered, |plan| after(&mut plan.parent, "make upper", "assemble rootfs")),
    ("elsewhere-only-to-clone", joining, |plan| {
        before(&mut plan.parent, "enter namespace", "enter cgroup");
    }),
    ("elsewhere-only-to-clone", joining, |plan| {
        for step in &mut plan.parent {
            if let ParentStep::EnterNamespace { kind, .. } = step {
                *kind = CloneFlags::NEWUSER;
            }
        }
    }),
    ("one-clone", Case::new, |plan| remove(&mut plan.parent, "clone")),
    ("alone-in-shared-memory", Case::new, |plan| {
        with_clone(plan, |clone| {
            if let ParentStep::Clone { flags, .. } = clone {
                flags.remove(CloneFlags::NEWPID);
            }
        })
    }),
    ("time-in-own-memory", timed, |plan| with_clone(plan, share)),
    (
        "time-in-own-memory",
        || Case::new().namespace("user", Some("/n")),
        |plan| {
            with_clone(plan, share);
        },
    ),
    ("intermediate-takes-inherited", exec, |plan| {
        with_clone(plan, |clone| {
            if let ParentStep::Clone { intermediate: Some(intermediate), .. } = clone {
                intermediate.steps += 1;
            }
        })
    }),
    ("intermediate-takes-inherited", exec, |plan| {
        with_clone(plan, |clone| {
            if let ParentStep::Clone { intermediate: Some(intermediate), .. } = clone {
                intermediate.steps = 0;
            }
        })
    }),
    ("bare-birth", exec, |plan| {
        with_clone(plan, |clone| {
            if let ParentStep::Clone { intermediate: Some(intermediate), .. } = clone {
                intermediate.strips = None;
            }
        })
    }),
    ("words-match", Case::new, |plan| after(&mut plan.parent, "await ready", "commit")),
    ("words-match", Case::new, |plan| remove(&mut plan.init, "await commit")),
    ("outside-before-admit", in_user, |plan| after(&mut plan.parent, "map ids", "admit")),
    ("outside-before-admit", scoped, |plan| after(&mut plan.parent, "release scope", "record")),
    ("scope-before-program", scoped, |plan| before(&mut plan.parent, "await scope", "record")),
    ("scope-before-program", scoped, |plan| after(&mut plan.parent, "await scope", "commit")),
    ("recorded-before-it-runs", Case::new, |plan| after(&mut plan.parent, "record", "commit")),
    ("recorded-before-it-runs", exec, |plan| remove(&mut plan.init, "await commit")),
    ("hooks-in-place", hooked, |plan| {
        after(&mut plan.init, "run hooks createContainer", "pivot root");
    }),
    ("hooks-in-place", hooked, |plan| {
        after(&mut plan.init, "await hooks", "run hooks createContainer");
    }),
    ("hooks-in-place", hooked, |plan| before(&mut plan.init, "await hooks", "mount proc*")),
    ("program-before-start", Case::new, |plan| {
        after(&mut plan.init, "find program", "await commit");
    }),
    ("released-before-start", Case::new, |plan| remove(&mut plan.init, "release descriptors")),
    ("little-after-start", Case::new, |plan| after(&mut plan.init, "verify cwd", "await start")),
    (
        "stands-in-for-the-exec",
        || Case::new().forked(),
        |plan| before(&mut plan.init, "wait for forked program", "await commit"),
    ),
    (
        "stands-in-for-the-exec",
        || Case::new().forked().run(),
        |plan| remove(&mut plan.parent, "await ready"),
    ),
    (
        "stands-in-for-the-exec",
        || Case::new().reaped(),
        |plan| before(&mut plan.init, "become reaper", "close descriptors*"),
    ),
    (
        "own-memory-to-stay",
        || Case::new().reaped(),
        |plan| {
            with_clone(plan, |clone| {
                if let ParentStep::Clone { memory, .. } = clone {
                    *memory = Memory::Shared;
                }
            });
        },
    ),
    ("exec-last", Case::new, |plan| before(&mut plan.init, "exec", "await start")),
    (
        "oom-score-back-last",
        || scored().run(),
        |plan| {
            before(&mut plan.parent, "restore oom score", "commit");
        },
    ),
    ("admitted-before-root", in_user, |plan| {
        after(&mut plan.init, "await admission", "become root");
    }),
    (
        "time-while-dumpable",
        || Case::new().rootless().namespace("time", None),
        |plan| {
            after(&mut plan.init, "enter time namespace", "clear dumpable");
        },
    ),
    ("joined-before-root", exec_in_user, |plan| {
        after(&mut plan.init, "join namespaces", "become root");
    }),
    ("taken-before-root", rootless, |plan| after(&mut plan.init, "clone tree", "become root")),
    ("cgroup-before-its-namespace", Case::new, |plan| {
        after(&mut plan.init, "join cgroups", "unshare");
    }),
    ("cpus-after-cgroup", Case::new, |plan| {
        before(&mut plan.init, "run on every cpu", "join cgroups");
    }),
    ("cpus-after-cgroup", Case::new, |plan| remove(&mut plan.init, "run on every cpu")),
    ("ipc-made-by-root", in_user, |plan| before(&mut plan.init, "unshare", "become root")),
    ("blank-left-at-once", Case::new, |plan| after(&mut plan.init, "unshare", "attach root")),
    ("session-before-terminal", terminal, |plan| {
        after(&mut plan.init, "new session", "open console");
    }),
    ("key-label-taken-back", labelled, |plan| {
        let last = plan.init.iter().rposition(|step| step.is("label keyring"));
        plan.init.remove(last.unwrap());
    }),
    ("slots-filled", Case::new, |plan| remove(&mut plan.parent, "clone device")),
    ("slots-filled", Case::new, |plan| after(&mut plan.parent, "clone tree", "clone")),
    ("slots-filled", Case::new, |plan| plan.slots = 9),
    ("slots-not-used-after-release", Case::new, |plan| {
        after(&mut plan.init, "mask", "release descriptors");
    }),
    (
        "own-proc-before-its-use",
        || labelled().exec(ALL),
        |plan| {
            after(&mut plan.init, "open own proc", "label process");
        },
    ),
    ("cut-off-before-mounts", hooked, |plan| remove(&mut plan.init, "detach propagation")),
    ("pins-left-out-last", Case::new, |plan| before(&mut plan.parent, "skip pinned", "clone tree")),
    ("pins-left-out-last", Case::new, |plan| after(&mut plan.parent, "skip pinned", "clone")),
    ("pins-left-out-last", Case::new, |plan| remove(&mut plan.parent, "skip pinned")),
    ("root-before-mounts", Case::new, |plan| after(&mut plan.init, "attach root", "mount proc*")),
    ("one-way-into-root", Case::new, |plan| remove(&mut plan.init, "enter root")),
    ("no-host-path-inside", rootless, |plan| after(&mut plan.init, "clone tree", "pivot root")),
    ("protected-inside", hooked, |plan| before(&mut plan.init, "mask", "pivot root")),
    (
        "protected-inside",
        || terminal().hooks(&["prestart"]),
        |plan| {
            before(&mut plan.init, "open console", "pivot root");
        },
    ),
    ("masks-after-mounts", Case::new, |plan| before(&mut plan.init, "mask", "mount proc*")),
    (
        "read-only-last",
        || Case::new().set("root/readonly", json!(true)),
        |plan| {
            before(&mut plan.init, "set mount attributes", "mount proc*");
        },
    ),
    (
        "frozen-is-own",
        || Case::new().detached(),
        |plan| {
            for step in &mut plan.init {
                if let InitStep::FreezeTmpfs { slot, .. } = step {
                    *slot = Slot::ROOT;
                }
            }
        },
    ),
    (
        "slots-filled",
        || Case::new().mount(json!({ "destination": "/dev", "options": ["remount", "ro"] })),
        |plan| {
            remove(&mut plan.init, "open mount");
        },
    ),
    ("network-before-sysfs", Case::new, |plan| {
        before(&mut plan.init, "mount sysfs*", "join network");
    }),
    (
        "network-before-sysfs",
        || Case::new().forked(),
        |plan| before(&mut plan.init, "mount sysfs*", "unshare"),
    ),
    ("privileged-before-user", Case::new, |plan| {
        before(&mut plan.init, "change user", "mount proc*");
    }),
    ("limits-before-user", limited, |plan| {
        after(&mut plan.init, "limit resources", "change user");
    }),
    ("low-nofile-last", limited, low_limit_first),
    ("low-nofile-last", || limited().exec(ALL), low_limit_first),
    ("umask-after-nodes", Case::new, |plan| before(&mut plan.init, "set umask", "make devices")),
    ("cwd-verified", Case::new, |plan| before(&mut plan.init, "verify cwd", "chdir to cwd")),
    ("cwd-verified", Case::new, |plan| remove(&mut plan.init, "verify cwd")),
    ("capabilities-around-user", Case::new, |plan| {
        after(&mut plan.init, "limit capabilities", "change user");
    }),
    ("capabilities-around-user", Case::new, |plan| {
        before(&mut plan.init, "set capabilities", "change user");
    }),
    ("labels-last", labelled, |plan| {
        before(&mut plan.init, "label process", "change user");
    }),
    ("close-fds-last", Case::new, |plan| {
        before(&mut plan.init, "close descriptors", "find program");
    }),
    (
        "filter-may-be-loaded",
        || Case::new().filter(false),
        |plan| {
            remove(&mut plan.init, "no new privileges");
        },
    ),
    (
        "filter-may-be-loaded",
        || privileged().filter(false),
        |plan| {
            let sets = plan.init.iter_mut().find(|step| step.is("set capabilities"));
            *sets.unwrap() = InitStep::SetCapabilities(Capabilities::default());
        },
    ),
    (
        "sys-admin-given-back",
        || privileged().filter(false),
        |plan| {
            let last = plan.init.iter().rposition(|step| step.is("set capabilities"));
            plan.init.remove(last.unwrap());
        },
    ),
    (
        "filter-before-exec",
        || Case::new().filter(false),
        |plan| {
            before(&mut plan.init, "load seccomp", "await start");
        },
    ),
    (
        "listener-handed-over",
        || Case::new().filter(true),
        |plan| {
            after(&mut plan.init, "hand over listener", "await commit");
        },
    ),
    (
        "hooks-under-filter",
        || Case::new().filter(false).hooks(&["startContainer"]),
        |plan| {
            for step in &mut plan.init {
                if let InitStep::RunHooks { confined, .. } = step {
                    *confined = None;
                }
            }
        },
    ),
    ("proc-first", Case::new, |plan| remove(&mut plan.parent, "open proc")),
    ("cgroup-before-trees", Case::new, |plan| remove(&mut plan.parent, "enter cgroup")),
    (
        "layers-in-order",
        || Case::new().layered(Mode::PerLayer),
        |plan| {
            before(&mut plan.parent, "detach layers", "assemble rootfs");
        },
    ),
    ("outside-before-admit", scoped, |plan| before(&mut plan.parent, "release scope", "clone")),
    ("recorded-before-it-runs", Case::new, |plan| remove(&mut plan.parent, "record")),
    ("recorded-before-it-runs", Case::new, |plan| before(&mut plan.parent, "record", "clone")),
    (
        "hooks-in-place",
        || Case::new().hooks(&["startContainer"]),
        |plan| {
            after(&mut plan.init, "await start", "run hooks startContainer");
        },
    ),
    (
        "program-before-start",
        || Case::new().filter(false),
        |plan| {
            before(&mut plan.init, "load seccomp", "find program");
        },
    ),
    ("admitted-before-root", rootless, |plan| {
        after(&mut plan.init, "await admission", "clear dumpable");
    }),
    ("cgroup-before-its-namespace", Case::new, |plan| remove(&mut plan.init, "join cgroups")),
    ("ipc-made-by-root", in_user, |plan| {
        with_clone(plan, |clone| {
            if let ParentStep::Clone { flags, .. } = clone {
                flags.insert(CloneFlags::NEWIPC);
            }
        })
    }),
    (
        "one-way-into-root",
        || Case::new().namespace("network", Some("/net")),
        |plan| {
            after(&mut plan.init, "join namespace net", "enter root");
        },
    ),
    ("privileged-before-user", Case::new, |plan| remove(&mut plan.init, "change user")),
    ("umask-after-nodes", Case::new, |plan| remove(&mut plan.init, "set umask")),
    ("cwd-verified", Case::new, |plan| after(&mut plan.init, "chdir to cwd", "change user")),
    ("close-fds-last", Case::new, |plan| remove(&mut plan.init, "close descriptors")),
    (
        "filter-may-be-loaded",
        || Case::new().filter(false),
        |plan| {
            before(&mut plan.init, "load seccomp", "no new privileges");
        },
    ),
];

fn scoped() -> Case {
    Case::new().in_scope()
}

fn rootless() -> Case {
    Case::new().rootless()
}

fn nested() -> Case {
    scored().nested()
}

fn in_user() -> Case {
    Case::new().in_user_namespace(100_000, 65_536)
}

fn exec() -> Case {
    Case::new().exec(ALL)
}

fn exec_in_user() -> Case {
    Case::new().exec(ALL | CloneFlags::NEWUSER)
}

fn hooked() -> Case {
    Case::new().hooks(&["createRuntime", "createContainer"])
}

fn layered() -> Case {
    Case::new().layered(Mode::Fd)
}

fn joining() -> Case {
    in_user().namespace("network", Some("/net"))
}

fn timed() -> Case {
    Case::new().namespace("time", None)
}

fn terminal() -> Case {
    Case::new().set("process/terminal", json!(true))
}

fn scored() -> Case {
    Case::new().set("process/oomScoreAdj", json!(100))
}

fn labelled() -> Case {
    Case::new().set("process/selinuxLabel", json!("a:b:c:s0"))
}

fn limited() -> Case {
    let limits = json!([limit("RLIMIT_CORE", 0), limit("RLIMIT_NOFILE", 10)]);
    Case::new().set("process/rlimits", limits)
}

fn privileged() -> Case {
    Case::new().set("process/noNewPrivileges", json!(false))
}

fn low_limit_first(plan: &mut Plan) {
    let last = plan.init.iter().rposition(|step| step.is("limit resources")).unwrap();
    let low = plan.init.remove(last);
    plan.init.insert(0, low);
}

fn share(clone: &mut ParentStep) {
    if let ParentStep::Clone { memory, .. } = clone {
        *memory = Memory::Shared;
    }
}

#[track_caller]
fn with_clone(plan: &mut Plan, change: fn(&mut ParentStep)) {
    change(plan.parent.iter_mut().find(|step| step.is("clone")).expect("a clone"));
}

/// Access to steps by the names that `dayfly plan` prints.
trait Named {
    fn words(&self) -> String;

    /// Returns whether the step has this name or, if `name` ends with a star, whether the step's name and object begin
    /// with the text before the star.
    fn is(&self, name: &str) -> bool {
        let words = self.words();
        match name.strip_suffix('*') {
            Some(beginning) => words.replace('\t', " ").starts_with(beginning),
            None => {
                words.replace('\t', " ") == name
                    || words.split_once('\t').is_some_and(|(own, _)| own == name)
            }
        }
    }
}

impl<T: Labelled> Named for T {
    fn words(&self) -> String {
        let label = self.label();
        format!("{}\t{}", label.name, label.object)
    }
}

#[track_caller]
fn take<T: Named>(steps: &mut Vec<T>, name: &str) -> T {
    let index = steps.iter().position(|step| step.is(name));
    steps.remove(index.unwrap_or_else(|| panic!("no {name}")))
}

#[track_caller]
fn remove<T: Named>(steps: &mut Vec<T>, name: &str) {
    drop(take(steps, name));
}

/// Moves the first step of one name before the first of another.
#[track_caller]
fn before<T: Named>(steps: &mut Vec<T>, name: &str, other: &str) {
    let step = take(steps, name);
    let index = steps.iter().position(|step| step.is(other));
    steps.insert(index.unwrap_or_else(|| panic!("no {other}")), step);
}

/// Moves the first step of one name after the last of another.
#[track_caller]
fn after<T: Named>(steps: &mut Vec<T>, name: &str, other: &str) {
    let step = take(steps, name);
    let index = steps.iter().rposition(|step| step.is(other));
    steps.insert(index.unwrap_or_else(|| panic!("no {other}")) + 1, step);
}
