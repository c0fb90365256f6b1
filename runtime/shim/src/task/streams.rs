//! ResizePty and CloseIO: change a process's streams.

use alloc::format;

use proto::messages::task::{CloseIORequest, ResizePtyRequest};
use proto::messages::time::Empty;
use proto::ttrpc::Status;

use super::malformed;
use crate::caller::{Answered, Outcome};
use crate::shim::Shim;

/// Sets the size of a terminal.
pub(super) fn resize(shim: &mut Shim, payload: &[u8]) -> Answered {
    let request = ResizePtyRequest::decode(payload).map_err(malformed)?;
    let process = shim.tasks.process_mut(&request.id, &request.exec_id)?;
    let length = |number: u32, what: &str| {
        u16::try_from(number).map_err(|_| Status::invalid_argument(format!("{what} {number}")))
    };
    let (width, height) = (length(request.width, "width")?, length(request.height, "height")?);
    // As in containerd's own shim, a missing or closed terminal is not an error.
    if let Err(error) = process.streams.resize(width, height) {
        shim.daemon.log.warning(format_args!("{}: {error}", request.id));
    }
    Ok(Outcome::Answer(Empty {}.encode()))
}

/// Closes a process's standard input.
pub(super) fn close(shim: &mut Shim, payload: &[u8]) -> Answered {
    let request = CloseIORequest::decode(payload).map_err(malformed)?;
    let process = shim.tasks.process_mut(&request.id, &request.exec_id)?;
    if request.stdin {
        process.streams.close_stdin(&shim.poller);
    }
    Ok(Outcome::Answer(Empty {}.encode()))
}
