//! The shim gets SIGKILL at any moment. Afterwards, the action `delete` of the shim's program leaves nothing behind.

use super::is_missing;
use dayfly_tests::bed::Bed;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::{Pipes, Shim, creation};
use dayfly_tests::{case, leak, wait};
use proto::messages::any::Any;
use proto::messages::specs;
use proto::messages::task::{DeleteRequest, DeleteResponse, ExecProcessRequest, KillRequest};
use proto::messages::task::{Method, StartRequest, WaitRequest};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

/// The number of kills per call, spread evenly over its duration.
const ROUNDS: u32 = 25;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(killed_while_creating).unlike_runc().alone(),
    case!(killed_while_starting).unlike_runc().alone(),
    case!(killed_while_executing).unlike_runc().alone(),
    case!(killed_while_deleting).unlike_runc().alone(),
];

/// One of a task's requests; `before` is the number of requests that precede it.
struct Step {
    before: usize,
    name: &'static str,
}

/// Returns the requests of a task's life, in order.
pub fn requests(container: &Container<'_>, pipes: &Pipes) -> Vec<(Method, Vec<u8>)> {
    let id = || container.id.clone();
    let process = json!({
        "args": ["/bin/echo", "x"], "cwd": "/", "env": ["PATH=/bin"], "user": { "uid": 0, "gid": 0 },
    });
    let value = process.to_string().into_bytes();
    let spec = Some(Any { type_url: specs::PROCESS.into(), value });
    let exec = ExecProcessRequest {
        id: id(),
        exec_id: "e".into(),
        stdout: pipes.path("stdout"),
        spec,
        ..ExecProcessRequest::default()
    };
    vec![
        (Method::Create, creation(container, Some(pipes)).encode()),
        (Method::Start, StartRequest { id: id(), ..StartRequest::default() }.encode()),
        (Method::Exec, exec.encode()),
        (Method::Start, StartRequest { id: id(), exec_id: "e".into() }.encode()),
        (Method::Kill, KillRequest { id: id(), signal: 9, ..KillRequest::default() }.encode()),
        (Method::Wait, WaitRequest { id: id(), ..WaitRequest::default() }.encode()),
        (Method::Delete, DeleteRequest { id: id(), ..DeleteRequest::default() }.encode()),
    ]
}

fn rounds(bed: &Bed, step: &Step) {
    if is_missing(bed) {
        return;
    }
    let whole = (0..3).map(|round| once(bed, step, round, None)).max().unwrap_or_default();
    for round in 0..ROUNDS {
        once(bed, step, 3 + round, Some(whole * round / ROUNDS));
    }
    println!("{}: {whole:?} each", step.name);
}

/// Makes all calls before the step, and the step's own; kills the shim at time `after` since the
/// start of the step; deletes the container. Returns the duration of the step.
#[track_caller]
fn once(bed: &Bed, step: &Step, round: u32, after: Option<Duration>) -> Duration {
    let container = bed.bundle().args(&["sleep", "1000"]).make();
    let pipes = Pipes::new(&container, "all");
    let shim = Shim::start(&container);
    let pid = Pid::from_raw(shim.pid() as i32).expect("pid");
    let requests = requests(&container, &pipes);
    for (method, request) in requests.iter().take(step.before) {
        let call = shim.send_encoded(*method, request.clone());
        shim.answer(call).unwrap_or_else(|error| panic!("{}: {error}", method.name()));
    }
    let (method, request) = &requests[step.before];
    let since = Instant::now();
    let call = shim.send_encoded(*method, request.clone());
    match after {
        None => drop(shim.answer(call).expect("answer")),
        Some(after) => {
            while since.elapsed() < after {
                std::hint::spin_loop();
            }
        }
    }
    let took = since.elapsed();
    kill_process(pid, Signal::KILL).expect("kill");
    shim.wait_for_its_end();
    let output = shim.delete(&container);
    assert!(output.status.success(), "{round}, {after:?}: {output:?}");
    DeleteResponse::decode(&output.stdout).expect("delete response");
    let ids = [container.id.clone()];
    let left = || leak::find(bed.view, &bed.dir, &ids);
    wait::until_none(&format!("{} {round} left", step.name), left);
    let socket = shim.address.trim_start_matches("unix://");
    assert!(!Path::new(socket).exists(), "{round}, {after:?}: {socket} is left: {output:?}");
    took
}

fn killed_while_creating(bed: &Bed) {
    rounds(bed, &Step { before: 0, name: "create" });
}

fn killed_while_starting(bed: &Bed) {
    rounds(bed, &Step { before: 1, name: "start" });
}

fn killed_while_executing(bed: &Bed) {
    rounds(bed, &Step { before: 3, name: "exec" });
}

fn killed_while_deleting(bed: &Bed) {
    rounds(bed, &Step { before: 6, name: "delete" });
}
