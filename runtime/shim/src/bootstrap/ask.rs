//! Asks a running shim to remove a container.
//!
//! The kernel tears down a killed process step by step. So when the shim is killed, containerd may see its connection
//! close, and run `delete`, while workers of the shim still create files or processes that `delete` is removing.
//! Therefore the workers keep the listening socket open as well: a client either gets an answer from the shim, or sees
//! its connection close when the last worker has exited.
//!
//! A shim that answers may still create the container: containerd runs `delete` also if a Create call has failed because
//! its client went away. Only the shim can end its worker, and only the shim can remove the container from its table.

use alloc::vec::Vec;
use core::time::Duration;

use proto::messages::task::{
    DeleteRequest, DeleteResponse, KillRequest, Method, SERVICE_V3, ShutdownRequest, WaitRequest,
};
use proto::ttrpc::status::code;
use proto::ttrpc::{Client, Status};
use rustix::event::{PollFd, PollFlags};
use sys::wait::{Deadline, ready};

use crate::event::dial;

/// The maximum time for a shim to answer, and for killed processes to exit. The shim's loop never blocks for long, but
/// the machine may be busy. containerd gives `delete` 5 seconds in total.
const PATIENCE: Duration = Duration::from_secs(3);
const SIGKILL: u32 = 9;

/// If a shim listens on the socket `path`, asks it to remove the container `id` with all its processes, and to exit if
/// the container was its last. Returns the answer if the shim has removed the container.
///
/// If the shim was killed, waits until none of its workers is running.
pub(super) fn remove(path: &str, id: &str) -> Option<DeleteResponse> {
    let mut line = Line { client: Client::new(dial(path).ok()?), end: Deadline::after(PATIENCE) };
    let (id, exec_id) = (|| id.into(), Default::default);
    let delete = || DeleteRequest { id: id(), exec_id: exec_id() }.encode();
    let mut answer = line.call(Method::Delete, delete())?;
    if answer.as_ref().is_err_and(|status| status.code == code::FAILED_PRECONDITION) {
        let kill = KillRequest { id: id(), exec_id: exec_id(), signal: SIGKILL, all: true };
        let _ = line.call(Method::Kill, kill.encode())?;
        let wait = WaitRequest { id: id(), exec_id: exec_id() };
        let _ = line.call(Method::Wait, wait.encode())?;
        answer = line.call(Method::Delete, delete())?;
    }
    let response = DeleteResponse::decode(&answer.ok()?).ok()?;
    // containerd has requested this already, if at all: the shim ignores the request while it has containers.
    let _ = line.call(Method::Shutdown, ShutdownRequest { id: id(), now: false }.encode());
    Some(response)
}

/// A connection to a shim.
struct Line {
    client: Client,
    end: Deadline,
}

impl Line {
    /// Returns the answer to a call; `None` if the shim closes the connection, or if it does not answer in time.
    fn call(&mut self, method: Method, request: Vec<u8>) -> Option<Result<Vec<u8>, Status>> {
        self.client.call(SERVICE_V3, method.name(), request);
        self.client.flush().ok()?;
        while let Ok(true) =
            ready(&mut [PollFd::from_borrowed_fd(self.client.fd(), PollFlags::IN)], self.end)
        {
            if let Some((_, answer)) = self.client.receive().ok()?.pop() {
                return Some(answer);
            }
        }
        None
    }
}
