//! Plays containerd: starts a shim for a container, calls its task service, and receives its events.

use crate::bed::Bed;
use crate::container::Container;
use crate::wait::patience;
use proto::message::{Message, Packed};
use proto::messages::any::Any;
use proto::messages::bootstrap::{BootstrapParams, BootstrapResult, Extension};
use proto::messages::events::{Envelope, ForwardRequest};
use proto::messages::options::Options;
use proto::messages::task::{self, CreateTaskRequest, Method};
use proto::messages::time::Empty;
use proto::ttrpc::{Client, Connection, Status};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode, mkfifoat};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

mod pipes;

pub use pipes::Pipes;

/// The shim's program, beside the runtime under test.
pub const NAME: &str = "containerd-shim-dayfly-v2";
/// The containerd namespace of all containers.
pub const NAMESPACE: &str = "tests";

/// Returns the path of the shim's program, if it exists.
#[must_use]
pub fn program(bed: &Bed) -> Option<PathBuf> {
    Some(bed.runtime().with_file_name(NAME)).filter(|path| path.exists())
}

/// The events that a shim publishes, received like containerd's events service.
pub struct Events {
    /// The path of the socket.
    pub path: PathBuf,
    heard: Receiver<Envelope>,
    /// A lock. While a case holds it, no events are received, as with a frozen containerd.
    pub frozen: Arc<Mutex<()>>,
}

impl Events {
    /// Starts a thread that receives events on a socket in `dir`, until the suite exits.
    ///
    /// # Panics
    /// When the socket can't be bound.
    #[must_use]
    pub fn serve(dir: &Path) -> Self {
        let path = dir.join("events.sock");
        let listener = UnixListener::bind(&path).expect("bind events socket");
        let (tell, heard) = channel();
        let frozen = Arc::new(Mutex::new(()));
        let thaw = Arc::clone(&frozen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (tell, thaw) = (tell.clone(), Arc::clone(&thaw));
                std::thread::spawn(move || hear(stream, &tell, &thaw));
            }
        });
        Self { path, heard, frozen }
    }

    /// Returns the next event.
    ///
    /// # Panics
    /// When no event arrives in time.
    #[track_caller]
    pub fn next(&self) -> Envelope {
        match self.heard.recv_timeout(patience()) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => panic!("no event"),
        }
    }

    /// Returns the next event, of type `M`.
    ///
    /// # Panics
    /// When the event is of another type.
    #[track_caller]
    pub fn next_of<M: Packed>(&self) -> M {
        let event = self.next();
        let unpacked = event.event.as_ref().and_then(|any| any.unpack::<M>().ok()?);
        unpacked.unwrap_or_else(|| panic!("{} instead of {}", event.topic, M::TYPE_URL))
    }

    /// Returns the topics of the next events, up to and including `last`.
    #[track_caller]
    pub fn topics_to(&self, last: &str) -> Vec<String> {
        let mut topics = Vec::new();
        while topics.last().is_none_or(|topic| topic != last) {
            topics.push(self.next().topic);
        }
        topics
    }
}

/// Answers the calls of one shim until the shim closes the connection.
fn hear(stream: UnixStream, tell: &Sender<Envelope>, thaw: &Mutex<()>) {
    let mut connection = Connection::new(stream.into());
    loop {
        ready(connection.fd(), PollFlags::IN, None);
        drop(thaw.lock());
        let Ok(calls) = connection.receive() else { return };
        for call in calls {
            let request = ForwardRequest::decode(&call.payload).expect("forward request");
            connection.respond(call.stream, Ok(Empty {}.encode()));
            let _ = tell.send(request.envelope.expect("envelope"));
        }
        if connection.flush().is_err() {
            return;
        }
    }
}

fn ready(fd: impl AsFd, flags: PollFlags, limit: Option<Duration>) -> bool {
    let limit = limit.map(|limit| limit.try_into().expect("time"));
    poll(&mut [PollFd::new(&fd, flags)], limit.as_ref()).is_ok_and(|count| count > 0)
}

/// A connection to a shim.
pub struct Line {
    client: RefCell<Client>,
    answers: RefCell<BTreeMap<u32, Result<Vec<u8>, Status>>>,
}

impl Line {
    /// Connects to a shim's address.
    ///
    /// # Panics
    /// When nothing listens there.
    #[must_use]
    pub fn to(address: &str) -> Self {
        let client = RefCell::new(Client::new(connect(address).into()));
        Self { client, answers: RefCell::default() }
    }

    /// Connects to a shim's address; returns `None` if nothing listens there.
    #[must_use]
    pub fn try_to(address: &str) -> Option<Self> {
        let path = address.strip_prefix("unix://").unwrap_or(address);
        let client = RefCell::new(Client::new(UnixStream::connect(path).ok()?.into()));
        Some(Self { client, answers: RefCell::default() })
    }

    /// Sends an encoded request, and returns the answer; `None` if the shim closes the connection first.
    ///
    /// # Panics
    /// When the shim neither answers nor closes the connection in time.
    #[track_caller]
    pub fn exchange(&self, method: Method, request: Vec<u8>) -> Option<Result<Vec<u8>, Status>> {
        self.exchange_of(task::SERVICE_V3, method, request)
    }

    /// Sends an encoded request as [`Line::exchange`] does, but to `service` instead of the task service of containerd
    /// 2.
    ///
    /// # Panics
    /// When the shim neither answers nor closes the connection in time.
    #[track_caller]
    pub fn exchange_of(
        &self,
        service: &str,
        method: Method,
        request: Vec<u8>,
    ) -> Option<Result<Vec<u8>, Status>> {
        let mut client = self.client.borrow_mut();
        let call = client.call(service, method.name(), request);
        let since = Instant::now();
        loop {
            client.flush().ok()?;
            let answers = client.receive().ok()?;
            if let Some((_, answer)) = answers.into_iter().find(|(stream, _)| *stream == call) {
                return Some(answer);
            }
            let left = patience().saturating_sub(since.elapsed());
            assert!(!left.is_zero(), "{}: no answer in {:?}", method.name(), patience());
            ready(client.fd(), PollFlags::IN, Some(left));
        }
    }

    /// Sends a request; returns the call, for [`Line::answer`].
    pub fn send(&self, method: Method, request: &impl Message) -> u32 {
        self.send_within(Duration::ZERO, method, request)
    }

    /// Sends a request with a timeout for the shim; zero means none.
    pub fn send_within(&self, limit: Duration, method: Method, request: &impl Message) -> u32 {
        let mut writer = proto::wire::Writer::default();
        request.write(&mut writer);
        self.send_bytes(limit, method, writer.into_bytes())
    }

    /// Sends an encoded request, without a timeout.
    pub fn send_encoded(&self, method: Method, request: Vec<u8>) -> u32 {
        self.send_bytes(Duration::ZERO, method, request)
    }

    fn send_bytes(&self, limit: Duration, method: Method, request: Vec<u8>) -> u32 {
        let mut client = self.client.borrow_mut();
        let limit = limit.as_nanos() as i64;
        let call = client.call_within(limit, task::SERVICE_V3, method.name(), request);
        while client.wants_to_write() {
            client.flush().expect("write to the shim");
            if client.wants_to_write() {
                ready(client.fd(), PollFlags::OUT, Some(patience()));
            }
        }
        call
    }

    /// Sends a request `count` times without reading answers. The shim may stop reading until its answers are read.
    pub fn send_all(&self, method: Method, request: &impl Message, count: usize) -> Vec<u32> {
        let mut writer = proto::wire::Writer::default();
        request.write(&mut writer);
        let bytes = writer.into_bytes();
        let mut client = self.client.borrow_mut();
        let mut calls = Vec::new();
        for _ in 0..count {
            calls.push(client.call(task::SERVICE_V3, method.name(), bytes.clone()));
            client.flush().expect("write to the shim");
        }
        calls
    }

    /// Reads until the shim closes the connection.
    ///
    /// # Panics
    /// When the shim stays silent, and the connection open, for too long.
    #[track_caller]
    pub fn wait_for_its_end(&self) {
        let mut client = self.client.borrow_mut();
        while client.receive().is_ok() {
            let is_ready = ready(client.fd(), PollFlags::IN, Some(patience()));
            assert!(is_ready, "the shim did not end in {:?}", patience());
        }
    }

    /// Returns the answer to a call, if it arrives within `limit`.
    pub fn answer_within(&self, call: u32, limit: Duration) -> Option<Result<Vec<u8>, Status>> {
        let since = Instant::now();
        loop {
            if let Some(answer) = self.answers.borrow_mut().remove(&call) {
                return Some(answer);
            }
            let mut client = self.client.borrow_mut();
            client.flush().expect("write to the shim");
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, client.wants_to_write());
            let left = limit.saturating_sub(since.elapsed());
            if !ready(client.fd(), flags, Some(left)) {
                return None;
            }
            self.answers.borrow_mut().extend(client.receive().expect("read from the shim"));
        }
    }

    /// Returns the answer to a call.
    ///
    /// # Panics
    /// When no answer arrives in time.
    #[track_caller]
    pub fn answer(&self, call: u32) -> Result<Vec<u8>, Status> {
        let answer = self.answer_within(call, patience());
        answer.unwrap_or_else(|| panic!("no answer in {:?}", patience()))
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// The status that the shim returns.
    #[track_caller]
    pub fn call<A: Message>(&self, method: Method, request: &impl Message) -> Result<A, Status> {
        let answer = self.answer(self.send(method, request))?;
        let mut message = A::default();
        message.merge(proto::wire::Reader::new(&answer)).expect("answer");
        Ok(message)
    }

    /// Returns the shim's process id.
    ///
    /// # Panics
    /// When the shim does not report it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        let request = task::ConnectRequest::default();
        self.call::<task::ConnectResponse>(Method::Connect, &request).expect("connect").shim_pid
    }
}

/// A shim, and a connection to it.
pub struct Shim<'a> {
    bed: &'a Bed,
    /// The path of the shim's program.
    pub program: PathBuf,
    /// The events that the shim publishes.
    pub events: Events,
    /// The address that the shim serves on.
    pub address: String,
    line: Line,
}

impl std::ops::Deref for Shim<'_> {
    type Target = Line;

    fn deref(&self) -> &Line {
        &self.line
    }
}

impl<'a> Shim<'a> {
    /// Starts a shim for a container, as containerd 2.3 and later do.
    ///
    /// # Panics
    /// When the shim does not start.
    #[track_caller]
    #[must_use]
    pub fn start(container: &Container<'a>) -> Self {
        Self::start_with(container, Options::default())
    }

    /// Starts a shim with options.
    ///
    /// # Panics
    /// When the shim does not start.
    #[track_caller]
    #[must_use]
    pub fn start_with(container: &Container<'a>, options: Options) -> Self {
        let program = program(container.bed).expect("a shim beside the runtime");
        Self::start_by(program, container, options, &[])
    }

    /// Starts a shim with another program, perhaps through a wrapper that executes its arguments.
    ///
    /// # Panics
    /// When the shim does not start.
    #[track_caller]
    #[must_use]
    pub fn start_by(
        program: PathBuf,
        container: &Container<'a>,
        options: Options,
        wrapper: &[&str],
    ) -> Self {
        let bed = container.bed;
        let events = Events::serve(&container.bundle);
        let address = boot(bed, &program, container, &events, options, wrapper);
        let line = Line::to(&address);
        Self { bed, program, events, address, line }
    }

    /// Returns the call `dayfly COMMAND…` with the shim's state root.
    pub fn dayfly(&self, args: &[&str]) -> crate::runtime::Call {
        let root = self.bed.root().join(NAMESPACE);
        let mut all = vec!["--root", root.to_str().expect("path")];
        all.extend(args);
        self.bed.call_bare(&all)
    }

    /// Executes the shim's program with `delete`, as containerd does after a shim has exited.
    pub fn delete(&self, container: &Container<'_>) -> std::process::Output {
        delete(&self.program, container, &self.events)
    }
}

/// Executes a shim's program with `delete`, as containerd does after a shim has exited.
///
/// # Panics
/// When the program can't be executed.
#[must_use]
pub fn delete(program: &Path, container: &Container<'_>, events: &Events) -> std::process::Output {
    let mut command = command(&[], program, container, &events.path);
    command.args(["-bundle"]).arg(&container.bundle).arg("delete");
    command.stdin(Stdio::null()).output().expect("execute the shim")
}

/// Returns the part of the command line that is the same whenever containerd executes the program.
#[must_use]
pub fn command(
    wrapper: &[&str],
    program: &Path,
    container: &Container<'_>,
    events: &Path,
) -> Command {
    let mut all = wrapper.iter().map(OsStr::new).chain([program.as_os_str()]);
    let mut command = Command::new(all.next().expect("a program"));
    command.args(all);
    command.args(["-namespace", NAMESPACE, "-id", &container.id, "-address", "/nowhere"]);
    command.current_dir(&container.bundle).env("TTRPC_ADDRESS", events);
    command
}

/// Makes the FIFO of the log in the bundle, and returns the parameters of `start`.
///
/// # Panics
/// When the FIFO can't be made.
#[must_use]
pub fn parameters(
    bed: &Bed,
    container: &Container<'_>,
    events: &Events,
    options: Options,
) -> Vec<u8> {
    let log = container.bundle.join("log");
    if !log.exists() {
        mkfifoat(CWD, &log, Mode::from_raw_mode(0o600)).expect("mkfifo log");
    }
    let root = bed.root().to_string_lossy().into_owned();
    let options = Options { root, ..options };
    let parameters = BootstrapParams {
        instance_id: container.id.clone(),
        namespace: NAMESPACE.into(),
        containerd_ttrpc_address: events.path.to_string_lossy().into_owned(),
        extensions: vec![Extension { value: Some(Any::pack(&options)) }],
        ..BootstrapParams::default()
    };
    parameters.encode()
}

/// Starts a shim, perhaps through a wrapper that executes its arguments; returns its address.
///
/// # Panics
/// When the shim does not start.
#[must_use]
pub fn boot(
    bed: &Bed,
    program: &Path,
    container: &Container<'_>,
    events: &Events,
    options: Options,
    wrapper: &[&str],
) -> String {
    let parameters = parameters(bed, container, events, options);
    let mut command = command(wrapper, program, container, &events.path);
    command.arg("start").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("execute the shim");
    let mut stdin = child.stdin.take().expect("stdin");
    stdin.write_all(&parameters).expect("write parameters");
    drop(stdin);
    let output = child.wait_with_output().expect("wait for the shim");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{}: {said}", output.status);
    BootstrapResult::decode(&output.stdout).expect("bootstrap result").address
}

/// Connects to a shim's address.
///
/// # Panics
/// When nothing listens there.
#[track_caller]
#[must_use]
pub fn connect(address: &str) -> UnixStream {
    let path = address.strip_prefix("unix://").unwrap_or(address);
    match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(error) => panic!("connect to {path}: {error}"),
    }
}

/// Returns the request that creates a container, with its output sent to `pipes`.
#[must_use]
pub fn creation(container: &Container<'_>, pipes: Option<&Pipes>) -> CreateTaskRequest {
    let path = |name| pipes.map(|pipes| pipes.path(name)).unwrap_or_default();
    CreateTaskRequest {
        id: container.id.clone(),
        bundle: container.bundle.to_string_lossy().into_owned(),
        stdout: path("stdout"),
        stderr: path("stderr"),
        ..CreateTaskRequest::default()
    }
}
