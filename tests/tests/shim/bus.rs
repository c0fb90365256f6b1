//! The bus of systemd. Only the creation and the deletion of a container in a scope wait for it.

use super::races::sleeper;
use super::{Task, is_missing};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::creation;
use proto::messages::process::status;
use proto::messages::task::{
    DeleteRequest, KillRequest, Method, StateRequest, StateResponse, WaitRequest, WaitResponse,
};
use proto::messages::time::Empty;
use serde_json::json;
use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(never_answers).unlike_runc(),
    case!(answers_late).needs(crate::systemd::systemd).unlike_runc(),
    case!(is_named_by_a_variable).unlike_runc(),
];

/// Returns a running task, whose shim takes the socket `system_bus_socket` in the directory `bus` for the system's bus.
fn with_bus_of_its_own(bed: &Bed) -> Task<'_> {
    with_bus_and_environment(bed, "")
}

/// Returns a task like [`with_bus_of_its_own`], with these shell assignments before the shim's start.
fn with_bus_and_environment<'a>(bed: &'a Bed, variables: &str) -> Task<'a> {
    let container = sleeper(bed);
    // Gives the shim a /run of its own, in which the directory that marks a host run by systemd exists. The shim's
    // socket is at its usual place. With -c, mount(8) does not canonicalize paths, so its relative sources are the
    // directories that were there before the overlay, even those below /run. A socket cannot be reached through an
    // overlay, so the bed's directory, which may be below /run, is mounted again.
    let script = format!(
        "cd {} && mkdir run && mount -t tmpfs none run && mkdir run/up run/work run/c \
         && mkdir -p /run/containerd && mount --bind /run/containerd run/c \
         && mount -t overlay none -o lowerdir=/run,upperdir=run/up,workdir=run/work /run \
         && mkdir -p /run/containerd /run/dbus /run/systemd/system \
         && mount -c --bind . {} \
         && mount -c --bind run/c /run/containerd && mount -c --bind bus /run/dbus && cd {} && {variables} exec \"$@\"",
        bed.dir.display(),
        bed.dir.display(),
        container.bundle.display(),
    );
    let wrapper = ["unshare", "-m", "--propagation", "private", "sh", "-c", &script, "sh"];
    let task = Task::created_by(&wrapper, container, Vec::new());
    task.start("");
    task
}

/// Makes the directory `bus` with the listening socket of a bus.
fn bus(bed: &Bed) -> UnixListener {
    let bus = bed.dir.join("bus");
    fs::create_dir(&bus).expect("mkdir");
    UnixListener::bind(bus.join("system_bus_socket")).expect("bind")
}

/// Sends the request to create a container in a scope of systemd, and asserts that other calls are answered before this
/// one. Returns the container, and the call that creates it.
fn created_while_others_go_on<'a>(bed: &'a Bed, task: &Task<'_>) -> (Container<'a>, u32) {
    let id = bed.id();
    let path = json!(format!("system.slice:test:{id}"));
    let other = bed.bundle().args(&["true"]).set("/linux/cgroupsPath", path).make_as(&id);
    let create = task.shim.send(Method::Create, &creation(&other, None));
    let request = StateRequest { id, ..StateRequest::default() };
    let state: StateResponse = task.shim.call(Method::State, &request).expect("state");
    assert_eq!(state.status, status::CREATED);
    task.exec("e", "exit 4", None);
    task.start("e");
    assert_eq!(task.wait("e"), 4);
    let soon = task.shim.answer_within(create, Duration::ZERO);
    assert!(soon.is_none(), "nobody waited: {soon:?}");
    (other, create)
}

/// Only the creation of the container waits for systemd.
fn never_answers(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let listener = bus(bed);
    let task = with_bus_of_its_own(bed);
    let (_, create) = created_while_others_go_on(bed, &task);
    drop(listener);
    let failed = task.shim.answer(create).unwrap_err();
    assert!(failed.message.starts_with("OCI runtime create failed: "), "{failed}");
    task.finish();
}

/// The container is created when systemd's bus answers at last, and no other call has waited for the bus.
fn answers_late(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let listener = bus(bed);
    // Forwards each connection to the real bus, after 15 seconds.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_secs(15));
                let real = UnixStream::connect("/run/dbus/system_bus_socket").expect("connect");
                let (mut to_real, mut to_shim) =
                    (real.try_clone().unwrap(), stream.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut &stream, &mut to_real);
                    let _ = to_real.shutdown(std::net::Shutdown::Both);
                });
                let _ = std::io::copy(&mut &real, &mut to_shim);
            });
        }
    });
    let task = with_bus_of_its_own(bed);
    let since = std::time::Instant::now();
    let (other, create) = created_while_others_go_on(bed, &task);
    let answer = task.shim.answer_within(create, Duration::from_secs(60)).expect("answer");
    answer.expect("create");
    assert!(since.elapsed() >= Duration::from_secs(15));
    let request = DeleteRequest { id: other.id.clone(), ..DeleteRequest::default() };
    let kill = KillRequest { id: other.id.clone(), signal: 9, all: true, ..KillRequest::default() };
    task.shim.call::<Empty>(Method::Kill, &kill).expect("kill");
    let wait = WaitRequest { id: other.id.clone(), ..WaitRequest::default() };
    task.shim.call::<WaitResponse>(Method::Wait, &wait).expect("wait");
    // The deletion stops the scope, over another connection to the bus.
    let delete = task.shim.send(Method::Delete, &request);
    let answer = task.shim.answer_within(delete, Duration::from_secs(60)).expect("answer");
    answer.expect("delete");
    task.finish();
}

/// The shim connects to the bus that DBUS_SYSTEM_BUS_ADDRESS in containerd's environment names, as runc does.
fn is_named_by_a_variable(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let usual = bus(bed);
    let path = bed.dir.join("another-bus");
    let listener = UnixListener::bind(&path).expect("bind");
    listener.set_nonblocking(true).expect("fcntl");
    let variable = format!("DBUS_SYSTEM_BUS_ADDRESS=unix:path={}", path.display());
    let task = with_bus_and_environment(bed, &variable);
    let (_, create) = created_while_others_go_on(bed, &task);
    let asked = dayfly_tests::wait::until("a connection to the bus", || listener.accept().ok());
    drop((asked, listener));
    let failed = task.shim.answer(create).unwrap_err();
    assert!(failed.message.starts_with("OCI runtime create failed: "), "{failed}");
    usual.set_nonblocking(true).expect("fcntl");
    assert!(usual.accept().is_err(), "the usual bus was asked");
    task.finish();
}
