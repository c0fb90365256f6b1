//! Attacks of a container's root on its standard streams under the shim. The streams must be pipes of the shim, never
//! containerd's FIFOs on the host.

use super::{Evidence, holds};
use dayfly_tests::bed::Bed;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::{Pipes, Shim, creation, program};
use proto::messages::options::Options;
use proto::messages::task::{
    CreateTaskResponse, DeleteRequest, DeleteResponse, Method, ShutdownRequest, StartRequest,
    StartResponse, WaitRequest, WaitResponse,
};
use proto::messages::time::Empty;
use serde_json::json;
use std::fs;
use std::os::unix::fs::MetadataExt;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    Case::new("streams_of_the_host", |bed| holds(bed, streams_of_the_host)).unlike_runc(),
    Case::new("streams_of_a_user", streams_of_a_user).unlike_runc(),
];

/// Runs the script to its end. Returns its status, its output, and the changes of the host's FIFOs.
#[track_caller]
fn run(bed: &Bed, user: u32, options: Options, script: &str, pipes: &str) -> (u32, String, String) {
    let bundle = bed.bundle().set("/process/user", json!({ "uid": user, "gid": user }));
    let container = bundle.sh(script).make();
    let pipes = Pipes::new(&container, pipes);
    let stat = || {
        let metadata =
            ["stdout", "stderr"].map(|name| fs::metadata(pipes.path(name)).expect("stat"));
        format!("{:?}", metadata.map(|of| (of.mode(), of.uid(), of.gid(), of.ino())))
    };
    let before = stat();
    let (out, err) = (pipes.reader("stdout"), pipes.reader("stderr"));
    let shim = Shim::start_with(&container, options);
    let id = || container.id.clone();
    let request = creation(&container, Some(&pipes));
    shim.call::<CreateTaskResponse>(Method::Create, &request).expect("create");
    let request = StartRequest { id: id(), ..StartRequest::default() };
    shim.call::<StartResponse>(Method::Start, &request).expect("start");
    let request = WaitRequest { id: id(), ..WaitRequest::default() };
    let ended: WaitResponse = shim.call(Method::Wait, &request).expect("wait");
    let said = String::from_utf8_lossy(&out.join().expect("stdout")).into_owned();
    let complaint = String::from_utf8_lossy(&err.join().expect("stderr")).into_owned();
    let after = stat();
    let request = DeleteRequest { id: id(), ..DeleteRequest::default() };
    shim.call::<DeleteResponse>(Method::Delete, &request).expect("delete");
    let request = ShutdownRequest { id: id(), now: false };
    shim.call::<Empty>(Method::Shutdown, &request).expect("shutdown");
    let changed = if before == after { String::new() } else { format!("{before} became {after}") };
    (ended.exit_status, format!("{said}{complaint}"), changed)
}

/// Root of the container changes the mode and owner of its standard streams, truncates them, and reopens them with
/// every access mode, to read what is meant for the host or to keep them open.
fn streams_of_the_host(bed: &Bed) -> Evidence {
    if program(bed).is_none() {
        println!("skipped: no containerd-shim-dayfly-v2 beside the runtime: make build");
        return None;
    }
    let script = "for n in 1 2; do f=/proc/self/fd/$n; chmod 666 $f; chown 1234:1234 $f; : >$f; \
                  stat -L -c '%a %u %F' $f; touch -d @0 $f; done; exec 3<>/proc/self/fd/1 3>&-; echo end";
    let (status, said, changed) = run(bed, 0, Options::default(), script, "root");
    assert_eq!(status, 0, "{said}");
    // The output arrived, and the attack changed only the shim's pipes.
    assert!(said.contains("end\n") && said.contains("666 1234 fifo"), "{said}");
    (!changed.is_empty()).then_some(changed)
}

/// An unprivileged user can reopen /dev/stdout, whether or not its id is in the shim's options.
fn streams_of_a_user(bed: &Bed) {
    if program(bed).is_none() {
        return println!("skipped: no containerd-shim-dayfly-v2 beside the runtime: make build");
    }
    let script = "echo one >/dev/stdout && echo two >/dev/stderr";
    let named = Options { io_uid: 1000, io_gid: 1000, ..Options::default() };
    for (options, name) in [(named, "named"), (Options::default(), "unnamed")] {
        let (status, said, changed) = run(bed, 1000, options, script, name);
        assert_eq!((status, said.as_str(), changed.as_str()), (0, "one\ntwo\n", ""), "{name}");
    }
}
