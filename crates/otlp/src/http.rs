//! One POST.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with,
};
use sys::Context;

use crate::{Endpoint, Error};

/// How long each step may take: nobody's container waits for a collector.
const PATIENCE: Duration = Duration::from_secs(1);

/// Posts JSON, and reads the first line of the answer.
pub fn post(endpoint: &Endpoint, body: &str) -> Result<(), Error> {
    let Endpoint { address, host, path } = endpoint;
    let object = || format!("http://{host}{path}");
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .context("socket", object())?;
    // connect(2) heeds the one for sending: socket(7), SO_SNDTIMEO.
    for timeout in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, timeout, Some(PATIENCE)).context("setsockopt", object())?;
    }
    connect(&socket, address).context("connect", object())?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut rest = request.as_bytes();
    while !rest.is_empty() {
        let sent = send(&socket, rest, SendFlags::NOSIGNAL).context("send", object())?;
        rest = rest.get(sent..).unwrap_or_default();
    }
    let mut answer = Vec::new();
    let mut buffer = [0u8; 512];
    while !answer.contains(&b'\n') && answer.len() < 4096 {
        let (length, _) =
            recv(&socket, &mut buffer, RecvFlags::empty()).context("receive", object())?;
        match buffer.get(..length) {
            None | Some([]) => break,
            Some(bytes) => answer.extend(bytes),
        }
    }
    let line = answer.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let status = line.split(' ').nth(1).unwrap_or_default();
    match line.starts_with("HTTP/1.") && status.starts_with('2') {
        true => Ok(()),
        false => Err(Error::Refused(line.into_owned())),
    }
}
