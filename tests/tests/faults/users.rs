//! Unprivileged callers: users with only their own ids, with ranges of ids, and in a user namespace made by another
//! user.

use super::ground::Ground;
use super::{fault_points, walked};
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::user::{User, can_be, can_be_managed};
use dayfly_tests::view::View;
use serde_json::json;

dayfly_tests::subject!(Runtime, CASES);

pub const CASES: &[Case] = &[
    case!(single_create).needs(users),
    case!(single_run_and_exec).needs(users),
    case!(single_besides).needs(users),
    case!(ranges_create).needs(users),
    case!(ranges_run_and_exec).needs(users),
    case!(ranges_besides).needs(users),
    case!(nested_create).needs(users),
    case!(nested_run_and_exec).needs(users),
    case!(nested_besides).needs(users),
    case!(joined).needs(users),
    case!(scopes).needs(managed_users).on(&[View::V2]),
];

/// Checks for fault points, and for the requirements of tests with users.
pub fn users() -> Result<(), String> {
    fault_points().and_then(|()| can_be())
}

fn managed_users() -> Result<(), String> {
    fault_points().and_then(|()| can_be_managed())
}

/// Returns the [`Ground`] for containers of `user`. Their remains are processes of the user, and
/// cgroups below the user's cgroup.
fn ground<'a>(user: &'a User, bundle: fn(&'a User) -> Bundle<'a>) -> Ground<'a> {
    Ground { bundle: Box::new(move || bundle(user)), left: Box::new(|| user.left()) }
}

fn create(ground: &Ground<'_>) {
    ground.create();
    walked();
}

fn run_and_exec(ground: &Ground<'_>) {
    ground.run(&[]);
    ground.exec(&[]);
    walked();
}

fn besides(ground: &Ground<'_>) {
    ground.besides("create", &|c| c.bundle_call("create", &[]), 10);
    ground.start();
    ground.delete();
    walked();
}

fn single_create(bed: &Bed) {
    create(&ground(&User::new(bed), User::single));
}

fn single_run_and_exec(bed: &Bed) {
    run_and_exec(&ground(&User::new(bed), User::single));
}

fn single_besides(bed: &Bed) {
    besides(&ground(&User::new(bed), User::single));
}

/// Returns a bundle with a time namespace, which init creates itself.
fn timed(user: &User) -> Bundle<'_> {
    let offsets = json!({ "monotonic": { "secs": 1000 } });
    let bundle = user.ranges().push("/linux/namespaces", json!({ "type": "time" }));
    bundle.set("/linux/timeOffsets", offsets)
}

fn ranges_create(bed: &Bed) {
    create(&ground(&User::delegated(bed), timed));
}

fn ranges_run_and_exec(bed: &Bed) {
    run_and_exec(&ground(&User::delegated(bed), timed));
}

fn ranges_besides(bed: &Bed) {
    besides(&ground(&User::delegated(bed), User::ranges));
}

fn nested_create(bed: &Bed) {
    create(&ground(&User::nested(bed), User::plain));
}

fn nested_run_and_exec(bed: &Bed) {
    run_and_exec(&ground(&User::nested(bed), User::plain));
}

fn nested_besides(bed: &Bed) {
    besides(&ground(&User::nested(bed), User::plain));
}

/// The steps of containers of a pod. For an ordinary user, the intermediate process joins the pod's user namespace; for
/// root of a nested user namespace, it joins only the PID namespace.
fn joined(bed: &Bed) {
    for (user, is_nested) in [(User::new(bed), false), (User::nested(bed), true)] {
        let bundle = || if is_nested { user.plain() } else { user.single() };
        let first = bundle().make().detached();
        let there = user.left();
        let pod = || {
            let kinds = [("pid", "pid"), ("network", "net"), ("ipc", "ipc"), ("uts", "uts")];
            let path = |file: &str| format!("/proc/{}/ns/{file}", first.pid());
            let bundle = kinds
                .into_iter()
                .fold(bundle(), |bundle, (kind, file)| bundle.join_namespace(kind, &path(file)));
            if is_nested {
                return bundle;
            }
            let bundle = bundle.join_namespace("user", &path("user"));
            bundle.unset("/linux/uidMappings").unset("/linux/gidMappings")
        };
        let left = || user.left().into_iter().filter(|left| !there.contains(left)).collect();
        let ground = Ground { bundle: Box::new(pod), left: Box::new(left) };
        ground.create();
        first.delete_force().ok();
    }
    walked();
}

/// The steps of containers in scopes of the user's systemd.
fn scopes(bed: &Bed) {
    let mut user = User::managed(bed);
    user.asks_systemd();
    // The first client starts the bus.
    user.ranges().args(&["/bin/true"]).make().run().ok();
    let there = user.left();
    let left = || {
        let left = user.left().into_iter().filter(|left| !there.contains(left));
        left.chain(user.scopes().iter().map(|scope| scope.display().to_string())).collect()
    };
    let bundle = || user.ranges();
    let ground = Ground { bundle: Box::new(bundle), left: Box::new(left) };
    ground.create();
    ground.run(&[]);
    ground.delete();
    walked();
}
