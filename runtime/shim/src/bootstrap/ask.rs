//! Checks whether a shim is running.
//!
//! The kernel tears down a killed process step by step. So when the shim is killed, containerd may see its connection
//! close, and run `delete`, while workers of the shim still create files or processes that `delete` is removing.
//! Therefore the workers keep the listening socket open as well: a client either gets an answer from the shim, or sees
//! its connection close when the last worker has exited.

use core::time::Duration;

use proto::messages::task::{ConnectRequest, Method, SERVICE_V3};
use proto::ttrpc::Client;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use sys::wait::{Deadline, ready};

use crate::event::dial;

/// The maximum time for a shim to answer, and for killed processes to exit. The shim's loop never blocks for long, but
/// the machine may be busy. containerd gives `delete` 5 seconds in total.
const PATIENCE: Duration = Duration::from_secs(3);

/// Returns true if a shim answers at the socket `path`, or if a process keeps the socket open until the time limit
/// without answering. If the result is false, no worker of the shim is running.
pub(super) fn is_served(path: &str) -> bool {
    let socket = match dial(path) {
        Ok(socket) => socket,
        // The backlog of the listening socket is full.
        Err(Errno::AGAIN) => return true,
        Err(_) => return false,
    };
    let mut client = Client::new(socket);
    client.call(SERVICE_V3, Method::Connect.name(), ConnectRequest::default().encode());
    if client.flush().is_err() {
        return false;
    }
    let deadline = Deadline::after(PATIENCE);
    while let Ok(true) =
        ready(&mut [PollFd::from_borrowed_fd(client.fd(), PollFlags::IN)], deadline)
    {
        match client.receive() {
            Ok(answers) if answers.is_empty() => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::socket::{Claim, claim};
    use super::*;
    use proto::ttrpc::Connection;
    use rustix::fd::OwnedFd;
    use rustix::net::accept;

    fn next(listener: &OwnedFd) -> OwnedFd {
        let forever = Deadline::after(Duration::from_secs(60));
        assert!(ready(&mut [PollFd::new(listener, PollFlags::IN)], forever).unwrap());
        accept(listener).unwrap()
    }

    #[test]
    fn shims_answer() {
        let name = std::format!("dayfly-shim-ask-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let path = path.to_str().unwrap();
        assert!(!is_served(path));
        let Claim::Ours(listener) = claim(path).unwrap() else { panic!("served by nobody") };
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| is_served(path));
            let mut connection = Connection::new(next(&listener));
            let calls = loop {
                let calls = connection.receive().unwrap();
                if !calls.is_empty() {
                    break calls;
                }
            };
            connection.respond(calls[0].stream, Ok(std::vec::Vec::new()));
            connection.flush().unwrap();
            assert!(asked.join().unwrap());
            // This fake shim exits without an answer.
            let asked = scope.spawn(|| is_served(path));
            drop(next(&listener));
            assert!(!asked.join().unwrap());
        });
        drop(listener);
        assert!(!is_served(path));
        std::fs::remove_file(path).unwrap();
    }
}
