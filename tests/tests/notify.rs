//! NOTIFY_SOCKET: a container notifies the service manager that it is ready.

use dayfly_tests::bed::Bed;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Call;
use dayfly_tests::{case, wait};
use rustix::process::Signal;
use serde_json::json;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(run_detached),
    case!(run_in_the_foreground).unlike_runc(),
    case!(create_and_start),
    case!(only_readiness_is_passed_on),
    case!(ends_without_a_word),
    case!(what_the_container_sees),
    case!(overrides_the_configs_variable).unlike_runc(),
    case!(exec_has_no_socket),
    case!(every_user_may_speak),
    case!(in_a_user_namespace),
    case!(without_the_variable),
    case!(manager_gone),
    case!(start_of_a_container_without_socket),
    case!(abstract_socket),
    case!(start_can_be_repeated).unlike_runc(),
];

const INSIDE: &str = "/run/notify/notify.sock";

/// The service manager's socket, whose path is the value of NOTIFY_SOCKET.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn new(bed: &Bed) -> Self {
        let path = bed.dir.join("manager.sock");
        let socket = UnixDatagram::bind(&path).expect("bind");
        socket.set_read_timeout(Some(wait::patience())).expect("set timeout");
        Self { socket, path }
    }

    /// Sets NOTIFY_SOCKET to this manager's socket for the call.
    fn serve(&self, call: Call) -> Call {
        call.env("NOTIFY_SOCKET", self.path.to_str().expect("path"))
    }

    /// Returns the next message.
    #[track_caller]
    fn hear(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    fn heard_nothing(&self) -> bool {
        self.socket.set_nonblocking(true).expect("set non-blocking");
        let nothing = self.socket.recv(&mut [0; 16]).is_err();
        self.socket.set_nonblocking(false).expect("set blocking");
        nothing
    }

    /// Asserts that the messages are those that a detached command sends for `c`.
    #[track_caller]
    fn hears_ready(&self, c: &Container<'_>) {
        assert_eq!(self.hear(), "READY=1\n");
        assert_eq!(self.hear(), format!("MAINPID={}\n", c.pid()));
        assert_eq!(self.hear(), "BARRIER=1");
    }
}

/// Sends `text` as a process of the container would.
#[track_caller]
fn say(c: &Container<'_>, text: &str) {
    let path = format!("/proc/{}/root{INSIDE}", c.pid());
    wait::until_true("the notify socket", || {
        let socket = UnixDatagram::unbound().expect("socket");
        socket.send_to(text.as_bytes(), &path).is_ok()
    });
}

fn run_detached(bed: &Bed) {
    let manager = Manager::new(bed);
    let c = bed.bundle().make();
    let run = manager.serve(c.bundle_call("run", &["--detach"])).spawn();
    wait::until_true("the container to run", || c.exists() && c.status() == "running");
    assert!(manager.heard_nothing());
    say(&c, "READY=1\nSTATUS=working");
    manager.hears_ready(&c);
    let _ = run.wait().ok();
    assert_eq!(c.status(), "running");
}

fn run_in_the_foreground(bed: &Bed) {
    let manager = Manager::new(bed);
    let c = bed.bundle().make();
    let run = manager.serve(c.bundle_call("run", &[])).spawn();
    wait::until_true("the container to run", || c.exists() && c.status() == "running");
    say(&c, "READY=1");
    assert_eq!(manager.hear(), "READY=1\n");
    // The command keeps running, so it is the service's main process.
    assert_eq!(manager.hear(), format!("MAINPID={}\n", run.pid().as_raw_nonzero()));
    // The command forwards signals before and after the notification.
    run.signal(Signal::KILL);
    c.delete_force().ok();

    let c = bed.bundle().sh("trap 'exit 5' TERM; echo ready; while :; do sleep 0.02; done").make();
    let run = manager.serve(c.bundle_call("run", &[])).spawn();
    wait::until_true("the program", || run.stdout().contains("ready"));
    run.signal(Signal::TERM);
    let _ = run.wait().exits(5);
    assert!(!c.exists() && manager.heard_nothing());
}

fn create_and_start(bed: &Bed) {
    let manager = Manager::new(bed);
    let c = bed.bundle().make();
    manager.serve(c.bundle_call("create", &[])).run().ok();
    assert_eq!(c.status(), "created");
    let start = manager.serve(c.id_call("start", &[], &[])).spawn();
    wait::until_true("the container to run", || c.status() == "running");
    assert!(manager.heard_nothing());
    say(&c, "READY=1");
    manager.hears_ready(&c);
    let _ = start.wait().ok();
    c.delete_force().ok();
    assert!(!bed.root().join(&c.id).exists());
}

fn only_readiness_is_passed_on(bed: &Bed) {
    let manager = Manager::new(bed);
    let c = bed.bundle().make();
    let run = manager.serve(c.bundle_call("run", &["-d"])).spawn();
    wait::until_true("the container to run", || c.exists() && c.status() == "running");
    for text in ["MAINPID=1", "STATUS=READY=1", "WATCHDOG=1", "STOPPING=1", "FDSTORE=1", ""] {
        say(&c, text);
    }
    say(&c, "READY=1\nMAINPID=1\nNOTIFYACCESS=all");
    manager.hears_ready(&c);
    let _ = run.wait().ok();
    assert!(manager.heard_nothing());
}

fn ends_without_a_word(bed: &Bed) {
    let manager = Manager::new(bed);
    let c = bed.bundle().sh("exit 3").make();
    manager.serve(c.bundle_call("run", &["--detach"])).run().ok();
    assert_eq!(c.status(), "stopped");
    c.delete().ok();
    manager.serve(c.bundle_call("create", &[])).run().ok();
    manager.serve(c.id_call("start", &[], &[])).run().ok();
    c.wait_status("stopped");
    c.delete().ok();
    manager.serve(bed.bundle().sh("exit 4").make().bundle_call("run", &[])).run().exits(4);
    assert!(manager.heard_nothing());
}

fn what_the_container_sees(bed: &Bed) {
    let manager = Manager::new(bed);
    let script = "echo $NOTIFY_SOCKET; test -S $NOTIFY_SOCKET && echo socket; \
                  touch /run/notify/f; grep ' /run/notify ' /proc/self/mountinfo | cut -d' ' -f6";
    let c = bed.bundle().sh(script).make();
    let outcome = manager.serve(c.bundle_call("run", &["--detach"])).run().ok();
    let printed = outcome.wait_output("nosuid");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[..2], [INSIDE, "socket"]);
    assert!(lines[2].starts_with("ro,nosuid,nodev,noexec"), "{printed}");
    c.delete().ok();
    assert!(!bed.root().join(&c.id).exists());
}

fn overrides_the_configs_variable(bed: &Bed) {
    let manager = Manager::new(bed);
    let c = bed.bundle().push("/process/env", json!("NOTIFY_SOCKET=/elsewhere")).sh("env").make();
    let outcome = manager.serve(c.bundle_call("run", &["--detach"])).run().ok();
    let printed = outcome.wait_output("NOTIFY_SOCKET");
    assert_eq!(printed.matches("NOTIFY_SOCKET").count(), 1, "{printed}");
    assert!(printed.contains(INSIDE), "{printed}");
}

fn exec_has_no_socket(bed: &Bed) {
    let manager = Manager::new(bed);
    let c = bed.bundle().make();
    let run = manager.serve(c.bundle_call("run", &["--detach"])).spawn();
    wait::until_true("the container to run", || c.exists() && c.status() == "running");
    let outcome = manager.serve(c.id_call("exec", &[], &["env"])).run().ok();
    assert!(!outcome.stdout.contains("NOTIFY_SOCKET"), "{outcome}");
    say(&c, "READY=1");
    manager.hears_ready(&c);
    let _ = run.wait().ok();
}

fn every_user_may_speak(bed: &Bed) {
    let manager = Manager::new(bed);
    let c = bed
        .bundle()
        .set("/process/user", json!({ "uid": 1000, "gid": 1000 }))
        .sh("stat -c %a /run/notify /run/notify/notify.sock")
        .make();
    // The container can use the socket whatever the umask of the command is.
    let bundle = c.bundle.to_string_lossy();
    let (runtime, root) = (bed.runtime().to_string_lossy(), bed.root());
    let script = "umask 077; exec \"$@\"";
    let args = [
        "-c",
        script,
        "sh",
        &runtime,
        "--root",
        &root.to_string_lossy(),
        "run",
        "-d",
        "--bundle",
        &bundle,
        &c.id,
    ];
    let outcome = manager.serve(bed.program("/bin/sh", &args)).run().ok();
    outcome.wait_output("755\n777\n");
}

fn in_a_user_namespace(bed: &Bed) {
    let manager = Manager::new(bed);
    let c = crate::userns::mapped(bed).make();
    let run = manager.serve(c.bundle_call("run", &["--detach"])).spawn();
    wait::until_true("the container to run", || c.exists() && c.status() == "running");
    say(&c, "READY=1");
    manager.hears_ready(&c);
    let _ = run.wait().ok();
}

fn without_the_variable(bed: &Bed) {
    let c = bed.bundle().sh("echo [$NOTIFY_SOCKET]; ls -d /run/notify").make();
    let outcome = c.run();
    assert_eq!(outcome.stdout, "[]\n");
    let c = bed.bundle().sh("echo [$NOTIFY_SOCKET]").make();
    let outcome = c.bundle_call("run", &[]).env("NOTIFY_SOCKET", "").run().ok();
    assert_eq!(outcome.stdout, "[]\n");
}

fn manager_gone(bed: &Bed) {
    let c = bed.bundle().make();
    c.bundle_call("run", &["--detach"]).env("NOTIFY_SOCKET", "/no/such/manager").run().ok();
    assert_eq!(c.status(), "running");
    let c = bed.bundle().make();
    c.bundle_call("create", &[]).env("NOTIFY_SOCKET", "/no/such/manager").run().ok();
    c.id_call("start", &[], &[])
        .env("NOTIFY_SOCKET", "/no/such/manager")
        .run()
        .fails("no such file or directory");
    assert_eq!(c.status(), "running");
}

fn start_of_a_container_without_socket(bed: &Bed) {
    let manager = Manager::new(bed);
    let c = bed.bundle().make();
    c.create().ok();
    manager.serve(c.id_call("start", &[], &[])).run().fails("no such file or directory");
    assert_eq!(c.status(), "created", "nothing was started that nobody hears of");
    c.start().ok();
    manager
        .serve(c.id_call("start", &[], &[]))
        .run()
        .fails("cannot start an already running container");
}

fn abstract_socket(bed: &Bed) {
    use std::os::linux::net::SocketAddrExt;
    let name = format!("dayfly-{}", bed.id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("name");
    let socket = UnixDatagram::bind_addr(&address).expect("bind");
    socket.set_read_timeout(Some(wait::patience())).expect("set timeout");
    let manager = Manager { socket, path: format!("@{name}").into() };
    let c = bed.bundle().make();
    let run = manager.serve(c.bundle_call("run", &["--detach"])).spawn();
    wait::until_true("the container to run", || c.exists() && c.status() == "running");
    say(&c, "READY=1");
    manager.hears_ready(&c);
    let _ = run.wait().ok();
}

/// A `start` that was killed before it sent its message has left the socket.
fn start_can_be_repeated(bed: &Bed) {
    let manager = Manager::new(bed);
    let c = bed.bundle().make();
    manager.serve(c.bundle_call("create", &[])).run().ok();
    let left = bed.root().join(&c.id).join("notify/notify.sock");
    drop(UnixDatagram::bind(&left).expect("bind"));
    let start = manager.serve(c.id_call("start", &[], &[])).spawn();
    wait::until_true("the container to run", || c.status() == "running");
    say(&c, "READY=1");
    manager.hears_ready(&c);
    let _ = start.wait().ok();
}
