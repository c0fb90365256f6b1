//! SIGKILL before each system call of a pod's life. One case kills the shim before the shim's own calls, one kills the
//! shim before the calls of its workers and inits, and one kills the worker or init that makes the call. Two cases kill
//! the actions `start` and `delete`.
//!
//! Each case kills at one call in [`STRIDE`], beginning at a random one of the first [`STRIDE`] calls; with
//! `DAYFLY_EVERY_CALL=1`, it kills at every call.
//!
//! The cases need no fault points: the tracer stops each process at its calls ([`follow`]). The kernel kills the
//! workers of a killed shim.

use super::crash::requests;
use super::is_missing;
use dayfly_tests::bed::Bed;
use dayfly_tests::container::Container;
use dayfly_tests::descent::{Descent, Family, Moment, moments};
use dayfly_tests::runner::Case;
use dayfly_tests::seed::Seed;
use dayfly_tests::shim::{self, Events, Line, Pipes, program};
use dayfly_tests::view::View;
use dayfly_tests::{case, leak, wait};
use host::follow::{self, Command, End, Event, Listener, Mode, call_name, follow};
use proto::messages::options::Options;
use proto::messages::task::{DeleteRequest, DeleteResponse, KillRequest, Method, ShutdownRequest};
use proto::messages::task::{WaitRequest, WaitResponse};
use proto::ttrpc::Status;
use rustix::process::{Pid, Signal, kill_process};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::PipeWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(start).on(&[View::V2]).unlike_runc(),
    case!(shim_at_its_own_calls).on(&[View::V2]).unlike_runc(),
    case!(shim_at_calls_of_its_children).on(&[View::V2]).unlike_runc(),
    case!(children).on(&[View::V2]).unlike_runc(),
    case!(delete).on(&[View::V2]).unlike_runc(),
];

/// The place of the shim that `start` leaves: the program that the test executes is `[]`, the shim's second worker is
/// `[0, 1]`, and the first child of that is `[0, 1, 0]`.
const SHIM: &[usize] = &[0];

/// The maximum time of one life.
const DEADLINE: Duration = Duration::from_secs(120);

/// The number of calls from one kill to the next: a walk through all calls takes minutes.
const STRIDE: usize = 10;

fn stride() -> usize {
    let is_whole = std::env::var("DAYFLY_EVERY_CALL").is_ok_and(|value| value == "1");
    if is_whole { 1 } else { STRIDE }
}

/// Chooses among the calls 0 to `count` - 1. Returns the numbers of the calls at which this run kills.
fn chosen(count: usize) -> impl Iterator<Item = usize> {
    let first = Seed::new("shim::calls").below(stride() as u64) as usize;
    (first..count).step_by(stride())
}

/// Asserts that at least nine tenths of the chosen calls led to a kill. Of all `calls` calls, one in `stride()` is
/// chosen. It can happen that a process does not reach its chosen call, because no two lives are the same.
#[track_caller]
fn assert_walked(struck: usize, calls: usize) {
    println!("{struck} kills");
    assert!(struck >= calls / stride() * 9 / 10, "{struck} kills");
}

/// The process that is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    /// The process that enters the call.
    Caller,
    /// The shim.
    Shim,
}

/// Kills one process of a shim's program at a given moment.
struct Killer {
    family: Family,
    victim: Victim,
}

impl Killer {
    fn recording() -> Self {
        Self { family: Family::default(), victim: Victim::Caller }
    }

    fn killing_at(last: Moment, victim: Victim) -> Self {
        Self { family: Family::until(last), victim }
    }

    fn kill(&mut self, caller: Pid) {
        let is_shim = |(_, descent): &(&Pid, &Descent)| descent.as_slice() == SHIM;
        let shim = self.family.members.iter().find(is_shim).map(|(pid, _)| *pid);
        let victim = if self.victim == Victim::Shim { shim } else { Some(caller) };
        let Some(pid) = victim else { return };
        self.family.has_killed = kill_process(pid, Signal::KILL).is_ok();
        // When the shim is a zombie, the kernel has sent PDEATHSIG to its workers, so the caller makes no further call.
        let since = Instant::now();
        let is_there = || leak::state(pid.as_raw_pid()).is_some_and(|state| !"ZX".contains(state));
        while pid != caller && is_there() && since.elapsed() < wait::patience() {
            std::hint::spin_loop();
        }
    }
}

impl Listener for Killer {
    fn hear(&mut self, pid: Pid, event: Event) {
        match event {
            Event::Born { parent: Some(parent), .. } => self.family.add_child(parent, pid),
            Event::Executed { command, .. } => {
                let is_shim = command.first().is_some_and(|name| name.ends_with(shim::NAME));
                self.family.execute(pid, is_shim);
            }
            Event::Entered { number, .. } => {
                let is_now = self.family.enter(pid, number);
                if is_now {
                    self.kill(pid);
                }
            }
            _ => {}
        }
    }

    fn hears_calls_of(&self, pid: Pid) -> bool {
        self.family.hears_calls_of(pid)
    }
}

/// A [`Killer`] shared by the tracer's thread and the test. The test reads the results after the traced processes have
/// ended.
#[derive(Clone)]
struct Shared(Arc<Mutex<Killer>>);

impl Shared {
    fn new(killer: Killer) -> Self {
        Self(Arc::new(Mutex::new(killer)))
    }

    fn lock(&self) -> MutexGuard<'_, Killer> {
        self.0.lock().expect("killer")
    }
}

impl Listener for Shared {
    fn hear(&mut self, pid: Pid, event: Event) {
        self.lock().hear(pid, event);
    }

    fn hears_calls_of(&self, pid: Pid) -> bool {
        self.lock().hears_calls_of(pid)
    }
}

/// The container, made anew in each round.
pub(crate) struct Ground<'a> {
    container: Container<'a>,
    /// The shim.
    pub(crate) program: PathBuf,
    events: Events,
    pipes: Pipes,
    /// The shim's socket, which is the same in each round, once a start has told its path.
    socket: RefCell<PathBuf>,
}

/// A shim that is being followed.
struct Followed {
    /// The connection to the shim, if it could be reached.
    line: Option<Line>,
    /// The end of a pipe. When it is closed, the wrapper that started the shim exits.
    gate: PipeWriter,
    tracer: JoinHandle<Result<End, follow::Error>>,
}

impl Followed {
    /// Waits until every process has ended.
    #[track_caller]
    fn end(self) {
        drop((self.line, self.gate));
        self.tracer.join().expect("tracer").expect("follow");
    }
}

impl<'a> Ground<'a> {
    /// Makes the container, unless there is no shim.
    pub(crate) fn new(bed: &'a Bed) -> Option<Self> {
        if is_missing(bed) {
            return None;
        }
        let container = bed.bundle().args(&["sleep", "1000"]).make();
        let events = Events::serve(&container.bundle);
        let pipes = Pipes::new(&container, "all");
        let socket = RefCell::default();
        Some(Self { program: program(bed)?, container, events, pipes, socket })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.container.bundle.join(name)
    }

    /// Removes the files that an earlier round has left in the bundle. containerd would remove the
    /// whole bundle.
    fn clear(&self) {
        for name in ["address", "dayfly.json", ".dayfly.json", ".address", "log", "status"] {
            let _ = fs::remove_file(self.path(name));
        }
    }

    /// Executes `start`, and follows it and the shim.
    fn start(&self, mode: Mode, mut listener: impl Listener + 'static) -> Followed {
        self.clear();
        let bed = self.container.bed;
        let given = shim::parameters(bed, &self.container, &self.events, Options::default());
        fs::write(self.path("parameters"), given).expect("write parameters");
        // The tracer detaches idle processes when the command has ended, so the wrapper stays until the round is over.
        let script =
            "\"$@\" <parameters >answer 2>said; echo $? >.status; mv .status status; read x";
        let own = shim::command(&[], &self.program, &self.container, &self.events.path);
        let (waits, gate) = std::io::pipe().expect("pipe");
        let command = Command::new("/bin/sh").args(["-c", script, "sh"]).arg(&self.program);
        let command = command.args(own.get_args()).arg("start").dir(&self.container.bundle);
        let command = command.env("TTRPC_ADDRESS", &self.events.path).stdin(waits);
        let tracer = std::thread::spawn(move || follow(&command, mode, DEADLINE, &mut listener));
        wait::until_true("start to end", || self.path("status").exists());
        let answer = fs::read(self.path("answer")).expect("answer");
        let result = proto::messages::bootstrap::BootstrapResult::decode(&answer).expect("result");
        // A shim that was killed early has told nobody.
        if let Some(socket) = result.address.strip_prefix("unix://") {
            *self.socket.borrow_mut() = socket.into();
        }
        let line = Line::try_to(&result.address).filter(|_| !result.address.is_empty());
        Followed { line, gate, tracer }
    }

    /// Returns the requests of a pod's life, up to its shutdown.
    fn life(&self) -> Vec<(Method, Vec<u8>)> {
        let mut all = requests(&self.container, &self.pipes);
        let exec = || (self.container.id.clone(), "e".to_owned());
        let (id, exec_id) = exec();
        let wait = WaitRequest { id, exec_id }.encode();
        let (id, exec_id) = exec();
        let delete = DeleteRequest { id, exec_id }.encode();
        all.splice(4..4, [(Method::Wait, wait), (Method::Delete, delete)]);
        all.extend([(Method::Shutdown, self.shutdown())]);
        all
    }

    fn shutdown(&self) -> Vec<u8> {
        ShutdownRequest { id: self.container.id.clone(), now: false }.encode()
    }

    /// Executes `delete` of the program, as containerd does when the shim's connection has closed.
    #[track_caller]
    fn delete(&self, what: &str) {
        let output = shim::delete(&self.program, &self.container, &self.events);
        assert!(output.status.success(), "{what}: {output:?}");
        DeleteResponse::decode(&output.stdout).expect("delete response");
    }

    #[track_caller]
    fn assert_gone(&self, what: &str) {
        let ids = [self.container.id.clone()];
        let record = self.container.bed.root().join("tests").join(&self.container.id);
        let socket = self.socket.borrow().clone();
        let left = || {
            let mut left = leak::find(self.container.bed.view, &self.container.bed.dir, &ids);
            let files = [record.as_path(), &socket];
            let exist = files.into_iter().filter(|path| path.exists());
            left.extend(exist.map(|path| format!("file {}", path.display())));
            left
        };
        wait::until_none(&format!("{what}: anything left"), left);
    }

    /// Sends the requests of a pod's life; returns the answers, up to the shim's end.
    fn live(&self, line: &Line) -> Vec<Result<Vec<u8>, Status>> {
        let mut answers = Vec::new();
        for (method, request) in self.life() {
            // Without a running init, nobody would answer the Wait.
            let is_wait = method == Method::Wait && answers.iter().any(Result::is_err);
            let Some(answer) = (if is_wait { None } else { line.exchange(method, request) }) else {
                break;
            };
            answers.push(answer);
        }
        answers
    }

    /// Records the calls of a whole life.
    fn record(&self) -> BTreeMap<Descent, Vec<u64>> {
        // The first start fills the host's cache.
        self.whole_life();
        self.whole_life()
    }

    /// Goes through a whole life; returns the calls.
    fn whole_life(&self) -> BTreeMap<Descent, Vec<u64>> {
        let killer = Shared::new(Killer::recording());
        let pid = self.live_through(Mode::Syscalls, killer.clone());
        let family = std::mem::take(&mut killer.lock().family);
        assert_eq!(family.members.get(&pid).map(Vec::as_slice), Some(SHIM));
        family.calls
    }

    /// Goes through a whole life, of which `listener` gets the events. Returns the pid that the shim had.
    pub(crate) fn live_through(&self, mode: Mode, listener: impl Listener + 'static) -> Pid {
        let followed = self.start(mode, listener);
        let line = followed.line.as_ref().expect("a shim");
        let pid = Pid::from_raw(line.pid() as i32).expect("pid");
        let answers = self.live(line);
        assert_eq!(answers.len(), self.life().len());
        for (answer, (method, _)) in answers.iter().zip(self.life()) {
            assert!(answer.is_ok(), "{}: {answer:?}", method.name());
        }
        line.wait_for_its_end();
        followed.end();
        self.delete("a whole life");
        self.assert_gone("a whole life");
        pid
    }

    /// Starts a pod once for each chosen system call of the processes that `is_walked` selects, and kills `victim` at
    /// that call. `round` then sends the requests of the pod's life and checks the result. Returns the number of kills.
    fn walk(
        &self,
        is_walked: impl Fn(&Descent) -> bool,
        victim: Victim,
        round: impl Fn(&Self, &str, Followed),
    ) -> usize {
        let recorded = self.record();
        let all = moments(&recorded, is_walked);
        let mut struck = 0;
        for (last, call) in chosen(all.len()).map(|at| &all[at]) {
            let what = format!("{:?}, call {}, {}", last.whose, last.number, call_name(*call));
            let killer = Shared::new(Killer::killing_at(last.clone(), victim));
            let followed = self.start(Mode::Syscalls, killer.clone());
            round(self, &what, followed);
            struck += usize::from(killer.lock().family.has_killed);
        }
        struck
    }
}

/// Ends a round whose shim may have been killed.
fn after_the_shim(ground: &Ground<'_>, what: &str, followed: Followed) {
    if let Some(line) = &followed.line {
        ground.live(line);
        line.wait_for_its_end();
    }
    ground.delete(what);
    followed.end();
    ground.assert_gone(what);
}

/// A killed `start` leaves no shim, and the next `start` works.
fn start(bed: &Bed) {
    let Some(ground) = Ground::new(bed) else { return };
    let struck = ground.walk(Vec::is_empty, Victim::Caller, |ground, what, followed| {
        after_the_shim(ground, what, followed);
    });
    assert_walked(struck, 50);
    ground.record();
}

fn shim_at_its_own_calls(bed: &Bed) {
    let Some(ground) = Ground::new(bed) else { return };
    let struck = ground.walk(|whose| whose == SHIM, Victim::Caller, after_the_shim);
    assert_walked(struck, 200);
}

fn shim_at_calls_of_its_children(bed: &Bed) {
    let Some(ground) = Ground::new(bed) else { return };
    let struck = ground.walk(|whose| whose.len() > 1, Victim::Shim, after_the_shim);
    assert_walked(struck, 350);
}

/// If a worker or an init is killed, a call may fail. The shim continues, removes the container,
/// and exits at containerd's request.
fn children(bed: &Bed) {
    let Some(ground) = Ground::new(bed) else { return };
    let id = || ground.container.id.clone();
    let struck = ground.walk(
        |whose| whose.len() > 1,
        Victim::Caller,
        |ground, what, followed| {
            let line = followed.line.as_ref().expect(what);
            ground.live(line);
            // If the pod's life reached the shutdown, the shim has exited.
            let kill = KillRequest { id: id(), signal: 9, all: true, ..KillRequest::default() };
            let wait = WaitRequest { id: id(), ..WaitRequest::default() };
            let delete = DeleteRequest { id: id(), ..DeleteRequest::default() };
            for (method, request) in [
                (Method::Kill, kill.encode()),
                (Method::Wait, wait.encode()),
                (Method::Delete, delete.encode()),
                (Method::Shutdown, ground.shutdown()),
            ] {
                let Some(answer) = line.exchange(method, request) else { break };
                if let (Method::Wait, Ok(answer)) = (method, &answer) {
                    let status = WaitResponse::decode(answer).expect("answer").exit_status;
                    assert_eq!(status, 137, "{what}");
                }
            }
            line.wait_for_its_end();
            followed.end();
            ground.assert_gone(what);
            ground.delete(what);
        },
    );
    assert_walked(struck, 350);
}

/// `delete` may be killed at any moment, and is then repeated.
fn delete(bed: &Bed) {
    let Some(ground) = Ground::new(bed) else { return };
    let prepare = || {
        ground.clear();
        let (container, events) = (&ground.container, &ground.events);
        let address = shim::boot(bed, &ground.program, container, events, Options::default(), &[]);
        let shim = Line::to(&address);
        for (method, request) in requests(&ground.container, &ground.pipes).into_iter().take(4) {
            let answer = shim.exchange(method, request).expect("an answer");
            answer.unwrap_or_else(|error| panic!("{}: {error}", method.name()));
        }
        let pid = Pid::from_raw(shim.pid() as i32).expect("pid");
        kill_process(pid, Signal::KILL).expect("kill");
        shim.wait_for_its_end();
    };
    let followed = |mut killer: Killer| {
        let own = shim::command(&[], &ground.program, &ground.container, &ground.events.path);
        let command = Command::new(&ground.program).args(own.get_args());
        let command = command.arg("-bundle").arg(&ground.container.bundle).arg("delete");
        let file = |path: &Path| File::create(path).expect("create");
        let command = command.dir(&ground.container.bundle).stderr(file(&ground.path("said")));
        let limit = Duration::from_secs(60);
        follow(&command, Mode::Syscalls, limit, &mut killer).expect("follow");
        killer.family
    };
    prepare();
    let recorded = followed(Killer::recording()).calls;
    ground.assert_gone("delete");
    let all = moments(&recorded, |_| true);
    let mut struck = 0;
    for (last, call) in chosen(all.len()).map(|at| &all[at]) {
        let what = format!("delete {:?}, call {}, {}", last.whose, last.number, call_name(*call));
        prepare();
        let family = followed(Killer::killing_at(last.clone(), Victim::Caller));
        struck += usize::from(family.has_killed);
        ground.delete(&what);
        ground.assert_gone(&what);
    }
    assert_walked(struck, 60);
}
