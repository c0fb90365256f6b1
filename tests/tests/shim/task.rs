//! A container under a shim, as the cases of the subject `shim` make it.

use dayfly_tests::container::Container;
use dayfly_tests::shim::{Pipes, Shim, creation, program};
use proto::messages::any::Any;
use proto::messages::mount::Mount;
use proto::messages::options::Options;
use proto::messages::process::status;
use proto::messages::specs;
use proto::messages::task::{
    CreateTaskRequest, CreateTaskResponse, DeleteRequest, DeleteResponse, ExecProcessRequest,
    KillRequest, Method, ShutdownRequest, StartRequest, StartResponse, StateRequest, StateResponse,
    WaitRequest, WaitResponse,
};
use proto::messages::time::Empty;
use serde_json::json;

/// A container that was created and started.
pub(super) struct Task<'a> {
    pub(super) container: Container<'a>,
    pub(super) shim: Shim<'a>,
}

impl<'a> Task<'a> {
    pub(super) fn created(container: Container<'a>, pipes: Option<&Pipes>) -> Self {
        let shim = Shim::start(&container);
        let request = creation(&container, pipes);
        let made: CreateTaskResponse = shim.call(Method::Create, &request).expect("create");
        assert!(made.pid > 0);
        Self { container, shim }
    }

    /// Creates a container whose root filesystem consists of these mounts, under a shim that a wrapper starts.
    pub(super) fn created_by(
        wrapper: &[&str],
        container: Container<'a>,
        rootfs: Vec<Mount>,
    ) -> Self {
        let program = program(container.bed).expect("shim");
        let shim = Shim::start_by(program, &container, Options::default(), wrapper);
        let request = CreateTaskRequest { rootfs, ..creation(&container, None) };
        shim.call::<CreateTaskResponse>(Method::Create, &request).expect("create");
        Self { container, shim }
    }

    /// Creates a container whose root filesystem consists of these mounts.
    pub(super) fn created_with(
        container: Container<'a>,
        rootfs: Vec<Mount>,
        pipes: &Pipes,
    ) -> Self {
        let shim = Shim::start(&container);
        let request = CreateTaskRequest { rootfs, ..creation(&container, Some(pipes)) };
        shim.call::<CreateTaskResponse>(Method::Create, &request).expect("create");
        Self { container, shim }
    }

    pub(super) fn started(container: Container<'a>, pipes: Option<&Pipes>) -> Self {
        let task = Self::created(container, pipes);
        task.start("");
        task
    }

    pub(super) fn id(&self) -> String {
        self.container.id.clone()
    }

    #[track_caller]
    pub(super) fn start(&self, exec_id: &str) -> u32 {
        let request = StartRequest { id: self.id(), exec_id: exec_id.into() };
        self.shim.call::<StartResponse>(Method::Start, &request).expect("start").pid
    }

    #[track_caller]
    pub(super) fn exec(&self, exec_id: &str, script: &str, pipes: Option<&Pipes>) {
        let process = json!({
            "args": ["/bin/sh", "-c", script], "cwd": "/", "env": ["PATH=/bin"],
            "user": { "uid": 0, "gid": 0 },
        });
        let value = process.to_string().into_bytes();
        let path = |name| pipes.map(|pipes| pipes.path(name)).unwrap_or_default();
        let request = ExecProcessRequest {
            id: self.id(),
            exec_id: exec_id.into(),
            stdout: path("stdout"),
            spec: Some(Any { type_url: specs::PROCESS.into(), value }),
            ..ExecProcessRequest::default()
        };
        self.shim.call::<Empty>(Method::Exec, &request).expect("exec");
    }

    #[track_caller]
    pub(super) fn wait(&self, exec_id: &str) -> u32 {
        let request = WaitRequest { id: self.id(), exec_id: exec_id.into() };
        self.shim.call::<WaitResponse>(Method::Wait, &request).expect("wait").exit_status
    }

    #[track_caller]
    pub(super) fn kill(&self, signal: u32) {
        let request = KillRequest { id: self.id(), signal, ..KillRequest::default() };
        self.shim.call::<Empty>(Method::Kill, &request).expect("kill");
    }

    #[track_caller]
    pub(super) fn state(&self) -> StateResponse {
        let request = StateRequest { id: self.id(), ..StateRequest::default() };
        self.shim.call(Method::State, &request).expect("state")
    }

    #[track_caller]
    pub(super) fn delete(&self, exec_id: &str) -> DeleteResponse {
        let request = DeleteRequest { id: self.id(), exec_id: exec_id.into() };
        self.shim.call(Method::Delete, &request).expect("delete")
    }

    /// Ends the container, deletes it, and shuts down the shim.
    #[track_caller]
    pub(super) fn finish(self) {
        if self.state().status != status::STOPPED {
            self.kill(9);
            assert_eq!(self.wait(""), 137);
        }
        self.delete("");
        self.shut_down();
    }

    #[track_caller]
    pub(super) fn shut_down(self) {
        let pid = self.shim.pid();
        let request = ShutdownRequest { id: self.id(), now: false };
        self.shim.call::<Empty>(Method::Shutdown, &request).expect("shutdown");
        self.await_end(pid);
    }

    /// Waits until the shim, process `pid`, has exited and its socket is gone.
    #[track_caller]
    pub(super) fn await_end(&self, pid: u32) {
        let gone = || {
            let is_there = std::path::Path::new(&format!("/proc/{pid}")).exists();
            !is_there || dayfly_tests::leak::is_zombie(pid as i32)
        };
        dayfly_tests::wait::until_true("the shim to end", gone);
        let socket = self.shim.address.trim_start_matches("unix://").to_owned();
        assert!(!std::path::Path::new(&socket).exists(), "{socket} is left");
    }
}
